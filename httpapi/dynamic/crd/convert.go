package crd

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/api"
)

// checkConverted keeps a converter from doing more than converting: objects
// stay who they are, and of their metadata only labels and annotations may
// differ.
func checkConverted(from, got [][]byte, to string) ([][]byte, error) {
	if len(got) != len(from) {
		return nil, fmt.Errorf("expected %d converted objects, got %d", len(from), len(got))
	}
	out := make([][]byte, len(got))
	for i := range got {
		was, is := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		if err := api.DecodeStored(from[i], was); err != nil {
			return nil, err
		}
		if err := api.DecodeStored(got[i], is); err != nil {
			return nil, fmt.Errorf("converted object %d: %w", i, err)
		}
		switch {
		case is.GetAPIVersion() != to:
			return nil, fmt.Errorf("converted object %d is of version %q, not %q", i, is.GetAPIVersion(), to)
		case is.GetKind() != was.GetKind():
			return nil, fmt.Errorf("converted object %d is a %q, not a %q", i, is.GetKind(), was.GetKind())
		case is.GetName() != was.GetName(), is.GetNamespace() != was.GetNamespace(), is.GetUID() != was.GetUID():
			return nil, fmt.Errorf("converted object %d is another object", i)
		}
		restoreMeta(is, was)
		var err error
		if out[i], err = api.Encode(is); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// restoreMeta gives a converted object the metadata that it had, but for
// labels and annotations.
func restoreMeta(is, was *unstructured.Unstructured) {
	old, _ := was.Object["metadata"].(map[string]any)   // checked when it was decoded
	wanted, _ := is.Object["metadata"].(map[string]any) // as above
	meta := maps.Clone(old)
	for _, key := range []string{"labels", "annotations"} {
		delete(meta, key)
		if m, ok := wanted[key].(map[string]any); ok {
			meta[key] = m
		}
	}
	is.Object["metadata"] = meta
}

// Converters are the converters of definitions by name. The zero value has
// none. It is safe for concurrent use.
type Converters struct {
	mu      sync.Mutex // guards the fields below
	byName  map[string]Converter
	changed map[string]bool // since the controller looked
	wake    chan struct{}   // has a token when changed is not empty
}

// Set gives a definition a converter, or takes it away with nil. What has been
// converted before is converted anew, and watches of the definition's kinds
// end, for their clients to begin again. There need be no such definition yet.
func (c *Converters) Set(crdName string, converter Converter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initialize()
	if converter == nil {
		delete(c.byName, crdName)
	} else {
		c.byName[crdName] = converter
	}
	c.changed[crdName] = true
	select {
	case c.wake <- struct{}{}:
	default: // there is one already
	}
}

func (c *Converters) initialize() {
	if c.byName == nil {
		c.byName, c.changed, c.wake = map[string]Converter{}, map[string]bool{}, make(chan struct{}, 1)
	}
}

// Get returns the converter of a definition, or nil.
func (c *Converters) Get(crdName string) Converter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byName[crdName]
}

// waker returns what gets a token when a converter changes.
func (c *Converters) waker() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initialize()
	return c.wake
}

// take returns the definitions whose converter has changed since the last call.
func (c *Converters) take() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.changed
	c.changed = map[string]bool{}
	return out
}
