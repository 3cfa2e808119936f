package rego

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// kinds are those that the policy wants to find in its data.
func (p *Plugin) kinds() []abi.KubewardenResource {
	if p.metadata == nil {
		return nil
	}
	return p.metadata.ContextAwareResources
}

// dataFor returns the data of one evaluation as a value of the guest.
func (p *Plugin) dataFor(i *engine.Instance) (uint32, error) {
	if len(p.kinds()) == 0 {
		return p.data, nil
	}
	inv := inventory{}
	for _, k := range p.kinds() {
		gvk := schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		request, err := json.Marshal(map[string]string{"group": gvk.Group, "version": gvk.Version, "resource": plural.Resource, "kind": k.Kind})
		if err != nil {
			return 0, err
		}
		b, err := i.Fetch("kube.list", request)
		if err != nil {
			if engine.ReasonOf(err) != "" {
				return 0, err
			}
			return 0, i.Errorf(engine.CapabilityDenied, "cannot list %s %s: %v", k.APIVersion, k.Kind, err)
		}
		if err := inv.add(b, p.mode, k, plural.Resource); err != nil {
			return 0, i.Errorf(engine.CapabilityDenied, "cannot read the list of %s %s: %v", k.APIVersion, k.Kind, err)
		}
	}
	b, err := inv.data(p.mode, p.settings)
	if err != nil {
		return 0, i.Errorf(engine.BadReply, "cannot make the policy's data: %v", err)
	}
	return parse(i, b)
}

// An inventory is a tree of objects.
type inventory map[string]any

// under returns the branch below some keys.
func (v inventory) under(keys ...string) inventory {
	for _, key := range keys {
		next, ok := v[key].(inventory)
		if !ok {
			next = inventory{}
			v[key] = next
		}
		v = next
	}
	return v
}

// add puts the objects of a list where a policy of the mode looks for them.
func (v inventory) add(list []byte, mode string, k abi.KubewardenResource, plural string) error {
	var l struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &l); err != nil {
		return err
	}
	if mode != abi.ModeGatekeeper {
		v.under(plural) // is there even if it is empty
	}
	for _, item := range l.Items {
		var o struct {
			Metadata struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(item, &o); err != nil {
			return fmt.Errorf("an object: %w", err)
		}
		name, namespace := o.Metadata.Name, o.Metadata.Namespace
		switch {
		case mode == abi.ModeGatekeeper && namespace == "":
			v.under("cluster", k.APIVersion, k.Kind)[name] = item
		case mode == abi.ModeGatekeeper:
			v.under("namespace", namespace, k.APIVersion, k.Kind)[name] = item
		case namespace == "":
			v.under(plural)[name] = item
		default:
			v.under(plural, namespace)[name] = item
		}
	}
	return nil
}

// data joins the inventory with the settings.
func (v inventory) data(mode string, settings []byte) ([]byte, error) {
	if mode == abi.ModeGatekeeper {
		return json.Marshal(map[string]any{"inventory": v})
	}
	data := map[string]any{}
	var s map[string]json.RawMessage
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, err
	}
	for key, value := range s {
		data[key] = value
	}
	data["kubernetes"] = v
	return json.Marshal(data)
}
