package httpapi_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSmoke(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	cm, err := f.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Data: map[string]string{"a": "b"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(cm)
	w, err := f.client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	t.Log(<-w.ResultChan())
	cm.Data["a"] = "c"
	cm, err = f.client.CoreV1().ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(<-w.ResultChan())
	l, err := f.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(len(l.Items), l.ResourceVersion)
	if err := f.client.CoreV1().ConfigMaps("default").Delete(ctx, cm.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Log(<-w.ResultChan())
	_, err = f.client.CoreV1().ConfigMaps("default").Get(ctx, cm.Name, metav1.GetOptions{})
	t.Log(err)
}
