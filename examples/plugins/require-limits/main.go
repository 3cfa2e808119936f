// Command require-limits is a plugin of Proa that refuses pods whose containers
// do not say how much memory and processor they may use.
//
// Settings, all optional:
//
//	{"resources": ["memory", "cpu"], "exemptImages": ["registry.example/debug:"]}
package main

import (
	"errors"
	"strings"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func main() {}

func init() {
	guest.OnConfigure(configure)
	guest.OnAdmit(admit)
}

// What the settings say.
var (
	required = []string{"memory", "cpu"}
	exempt   []string
)

func configure(settings guest.Value) error {
	if r := settings.Get("resources"); !r.Missing() {
		if !r.IsArray() || r.Len() == 0 {
			return errors.New("resources must be a list of names")
		}
		required = nil
		for _, name := range r.Items {
			required = append(required, name.Text())
		}
	}
	for _, prefix := range settings.Get("exemptImages").Items {
		exempt = append(exempt, prefix.Text())
	}
	return nil
}

func admit(r *guest.Request) guest.Answer {
	var missing []string
	spec := r.Object.Get("spec")
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range spec.Get(list).Items {
			limits := c.Get("resources", "limits")
			for _, name := range required {
				if limits.Get(name).IsNull() && !isExempt(c) {
					missing = append(missing, "container "+c.Get("name").Text()+" has no "+name+" limit")
				}
			}
		}
	}
	if len(missing) > 0 {
		return guest.Deny(strings.Join(missing, "; "))
	}
	return guest.Allow()
}

func isExempt(container guest.Value) bool {
	image := container.Get("image").Text()
	for _, prefix := range exempt {
		if strings.HasPrefix(image, prefix) {
			return true
		}
	}
	return false
}
