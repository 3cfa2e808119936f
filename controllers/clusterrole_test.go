package controllers_test

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/client"
)

// Rules go through a chain of roles that gather, and leave it again.
func TestClusterRoleAggregation(t *testing.T) {
	c := newCluster(t)
	roles := client.For[*rbacv1.ClusterRole](c.rest)
	create := func(name string, gathers bool, labels map[string]string, verbs ...string) {
		t.Helper()
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if gathers {
			r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": name}}}}
		}
		for _, v := range verbs {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{v}, APIGroups: []string{""}, Resources: []string{"pods"}})
		}
		if _, err := roles.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name string, verbs ...string) {
		t.Helper()
		c.eventually(10*time.Second, func() error {
			r, err := roles.Get(t.Context(), "", name)
			if err != nil {
				return err
			}
			var got []string
			for _, rule := range r.Rules {
				got = append(got, rule.Verbs...)
			}
			if fmt.Sprint(got) != fmt.Sprint(verbs) {
				return fmt.Errorf("%s has %v, want %v", name, got, verbs)
			}
			return nil
		})
	}
	create("admin", true, nil, "nonsense") // what stands in it is overwritten
	create("edit", true, map[string]string{"to": "admin"})
	create("a", false, map[string]string{"to": "edit"}, "get", "list")
	c.manage()
	has("admin", "get", "list")
	create("b", false, map[string]string{"to": "edit"}, "watch", "get")
	has("admin", "get", "list", "watch")
	if err := roles.Delete(t.Context(), "", "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has("admin", "watch", "get")
	has("edit", "watch", "get")
}
