package controlplane

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage/memory"
)

// Policies read their parameters as the version that they name.
func TestParams(t *testing.T) {
	store := memory.New(memory.Config{})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	meta := func(name string, set map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: set}
	}
	for _, obj := range []api.Object{
		&corev1.ConfigMap{ObjectMeta: meta("b", map[string]string{"on": "1"}), Data: map[string]string{"max": "2"}},
		&corev1.ConfigMap{ObjectMeta: meta("a", map[string]string{"on": "1"}), Data: map[string]string{"max": "1"}},
		&corev1.ConfigMap{ObjectMeta: meta("c", nil)},
		&corev1.Event{ObjectMeta: meta("e", nil), Message: "hello"},
	} {
		row := api.ByType(obj)
		value, err := api.EncodeStored(obj)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Create(context.Background(), row.Key("shop", obj.GetName()), value, 0); err != nil {
			t.Fatal(err)
		}
	}
	p := params{store: store}
	row := p.Kind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	if row == nil || p.Kind(schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Limit"}) != nil {
		t.Fatal(row)
	}
	obj, err := p.Get(context.Background(), row, "shop", "a")
	if err != nil || obj["data"].(map[string]any)["max"] != "1" {
		t.Error(obj, err)
	}
	if obj, err := p.Get(context.Background(), row, "shop", "zzz"); obj != nil || err != nil {
		t.Error(obj, err)
	}
	list, err := p.List(context.Background(), row, "shop", labels.SelectorFromSet(labels.Set{"on": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, obj := range list {
		got = append(got, obj["data"].(map[string]any)["max"])
	}
	if diff := cmp.Diff([]any{"1", "2"}, got); diff != "" {
		t.Error(diff)
	}
	event, err := p.Get(context.Background(), p.Kind(eventsv1.SchemeGroupVersion.WithKind("Event")), "shop", "e")
	if err != nil || event["note"] != "hello" || event["apiVersion"] != "events.k8s.io/v1" {
		t.Error(event, err)
	}
}
