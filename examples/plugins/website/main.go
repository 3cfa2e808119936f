// Command website is a reconciler of Proa: for each ConfigMap with the label
// website it keeps a Deployment of a web server, which is named after it. The
// data say what:
//
//	replicas: "2"
//	index: <h1>Hello</h1>
//
// The page goes into another ConfigMap, whose name has the suffix -page; without
// an index there is none.
//
// Settings:
//
//	{"image": "registry.example/nginx:1"}
package main

import (
	"errors"
	"strconv"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func main() {}

func init() {
	guest.OnConfigure(configure)
	guest.OnReconcile(reconcile)
}

var image string

func configure(settings guest.Value) error {
	if image = settings.Get("image").Text(); image == "" {
		return errors.New("image must be set")
	}
	return nil
}

func reconcile(r *guest.ReconcileRequest) guest.Reconciled {
	name := r.Object.Get("metadata", "name").Text()
	namespace := r.Object.Get("metadata", "namespace").Text()
	data := r.Object.Get("data")
	replicas := 1
	if s := data.Get("replicas").Text(); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return guest.Reconciled{Error: errors.New("data.replicas is no number: " + s)}
		}
		replicas = n
	}
	labels := map[string]string{"site": name}
	meta := func(name string) *guest.Object {
		return guest.NewObject().Set("name", name).Set("namespace", namespace).Set("labels", labels)
	}
	container := guest.NewObject().Set("name", "web").Set("image", image)
	pod := guest.NewObject()
	var objects []any
	if index := data.Get("index"); !index.IsNull() {
		page := name + "-page"
		objects = append(objects, guest.NewObject().Set("apiVersion", "v1").Set("kind", "ConfigMap").
			Set("metadata", meta(page)).Set("data", guest.NewObject().Set("index.html", index)))
		container.Set("volumeMounts", []*guest.Object{guest.NewObject().Set("name", "page").Set("mountPath", "/usr/share/nginx/html")})
		pod.Set("volumes", []*guest.Object{guest.NewObject().Set("name", "page").
			Set("configMap", guest.NewObject().Set("name", page))})
	}
	pod.Set("containers", []*guest.Object{container})
	objects = append(objects, guest.NewObject().Set("apiVersion", "apps/v1").Set("kind", "Deployment").
		Set("metadata", meta(name)).
		Set("spec", guest.NewObject().
			Set("replicas", replicas).
			Set("selector", guest.NewObject().Set("matchLabels", labels)).
			Set("template", guest.NewObject().
				Set("metadata", guest.NewObject().Set("labels", labels)).
				Set("spec", pod))))
	return guest.Reconciled{Objects: objects}
}
