package informers

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Key names an object of a kind. The namespace is empty for kinds without.
type Key struct{ Namespace, Name string }

// KeyOf returns the key of an object.
func KeyOf(obj metav1.Object) Key { return Key{obj.GetNamespace(), obj.GetName()} }

// String returns namespace/name, or the name alone.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}
