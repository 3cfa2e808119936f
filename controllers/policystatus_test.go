package controllers_test

import (
	"errors"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/controllers"
	"github.com/proa-project/proa/httpapi/client"
)

// A policy's expressions are checked against the kinds that it names, once for
// each generation.
func TestPolicyStatus(t *testing.T) {
	c := newCluster(t)
	c.manage(func(cfg *controllers.Config) { cfg.Names = []string{"policystatus"} })
	policies := client.For[*admissionregistrationv1.ValidatingAdmissionPolicy](c.rest)
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := yaml.UnmarshalStrict([]byte(`{metadata: {name: typo}, spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, matchConstraints: {resourceRules: [
		{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments, deployments/scale]},
		{operations: [CREATE], apiGroups: [gone.example.test], apiVersions: [v1], resources: [things]}, {operations: [CREATE], apiGroups: ["*"], apiVersions: [v1], resources: [pods]}]},
		validations: [{expression: "object.spec.replicas < 5"}, {expression: "object.spec.replica < params.data.size()"}]}}`), p); err != nil {
		t.Fatal(err)
	}
	p, err := policies.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	checked := func(generation int64) func() error {
		return func() error {
			p, err = policies.Get(t.Context(), "", "typo")
			if err == nil && (p.Status.ObservedGeneration != generation || p.Status.TypeChecking == nil) {
				err = errors.New("not checked yet")
			}
			return err
		}
	}
	c.eventually(10*time.Second, checked(1))
	const want = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n | object.spec.replica < params.data.size()\n | ...........^\n"
	if w := p.Status.TypeChecking.ExpressionWarnings; len(w) != 1 || w[0].FieldRef != "spec.validations[1].expression" || w[0].Warning != want {
		t.Errorf("got %+v, want %s", w, want)
	}
	p.Spec.Validations = p.Spec.Validations[:1]
	if _, err := policies.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	c.eventually(10*time.Second, checked(2))
	if w := p.Status.TypeChecking.ExpressionWarnings; len(w) != 0 {
		t.Errorf("got %+v, want none", w)
	}
}
