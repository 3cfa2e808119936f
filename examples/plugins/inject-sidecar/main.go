// Command inject-sidecar is a plugin of Proa that adds a container to pods
// which ask for it by the annotation sidecar.example/inject: "true".
//
// Settings:
//
//	{"container": {"name": "proxy", "image": "registry.example/proxy:1"}}
package main

import (
	"errors"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func main() {}

func init() {
	guest.OnConfigure(configure)
	guest.OnAdmit(admit)
}

const annotation = "sidecar.example/inject"

// The container to add, as JSON, and its name.
var container, name string

func configure(settings guest.Value) error {
	c := settings.Get("container")
	container, name = string(c.Raw()), c.Get("name").Text()
	if name == "" || c.Get("image").Text() == "" {
		return errors.New("container must have a name and an image")
	}
	return nil
}

func admit(r *guest.Request) guest.Answer {
	if !r.Object.Get("metadata", "annotations", annotation).Is("true") {
		return guest.Allow()
	}
	for _, c := range r.Object.Get("spec", "containers").Items {
		if c.Get("name").Is(name) {
			return guest.Allow() // is there already
		}
	}
	p := &guest.Patch{}
	p.Add("/spec/containers/-", guest.Raw(container))
	if labels := r.Object.Get("metadata", "labels"); labels.IsNull() {
		p.Add("/metadata/labels", map[string]string{"sidecar": name})
	} else {
		p.Add("/metadata/labels/sidecar", name)
	}
	return guest.Change(p).Annotate("injected", name)
}
