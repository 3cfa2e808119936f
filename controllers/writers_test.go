package controllers

import (
	"errors"
	"testing"

	"github.com/proa-project/proa/controllers/reconcile"
)

func TestCheckWriters(t *testing.T) {
	a := reconcile.Scope{Name: "a", Reads: []string{"pods"}, Writes: []string{"pods/status"}}
	b := reconcile.Scope{Name: "b", Reads: []string{"pods"}, Writes: []string{"pods/labels"}}
	if err := checkWriters([]reconcile.Scope{a, b}); err != nil {
		t.Error(err)
	}
	b.Writes = append(b.Writes, "pods/status")
	if err := checkWriters([]reconcile.Scope{a, b}); !errors.Is(err, ErrSecondWriter) {
		t.Errorf("a second writer: %v", err)
	}
}
