package main

import (
	"encoding/json"
	"testing"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func TestReconcile(t *testing.T) {
	image = "nginx"
	defer func() { image = "" }()
	for name, tc := range map[string]struct {
		data     string
		replicas int
		kinds    []string
		problem  string
	}{
		"defaults":    {`{}`, 1, []string{"Deployment"}, ""},
		"replicas":    {`{"replicas":"3"}`, 3, []string{"Deployment"}, ""},
		"a page":      {`{"index":"<h1>Hi</h1>"}`, 1, []string{"ConfigMap", "Deployment"}, ""},
		"no number":   {`{"replicas":"x"}`, 0, nil, "data.replicas is no number: x"},
		"no replicas": {`{"replicas":"-1"}`, 0, nil, "data.replicas is no number: -1"},
	} {
		var reply struct {
			Objects []struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
				Data     map[string]string
				Spec     struct{ Replicas int }
			}
			Error string
		}
		b := guest.Reconcile([]byte(`{"object":{"metadata":{"name":"shop","namespace":"web"},"data":` + tc.data + `},"owned":[]}`))
		if err := json.Unmarshal(b, &reply); err != nil || reply.Error != tc.problem || len(reply.Objects) != len(tc.kinds) {
			t.Errorf("%s: %s, %v", name, b, err)
			continue
		}
		for i, o := range reply.Objects {
			if o.Kind != tc.kinds[i] || o.Metadata.Namespace != "web" || o.Kind == "Deployment" && (o.Spec.Replicas != tc.replicas || o.Metadata.Name != "shop") {
				t.Errorf("%s: %+v", name, o)
			}
		}
	}
}
