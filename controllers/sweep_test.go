package controllers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/controllers/nodelifecycle"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
)

// TestNode_sweep deletes the pods of a node that is gone, and no others.
func TestNode_sweep(t *testing.T) {
	c := newCluster(t)
	c.node("stays")
	c.node("goes")
	for i := range 3 {
		c.running(fmt.Sprint("lost-", i), "goes")
	}
	c.running("kept", "stays")
	f := informers.NewFactory(informers.Config{REST: c.rest})
	loop := nodelifecycle.New(nodelifecycle.Config{
		REST: c.rest, Factory: f, Recorder: event.NewRecorder(c.rest, "test", "", zerolog.Nop()),
		Sweep: 20 * time.Millisecond, Quarantine: 100 * time.Millisecond, Grace: time.Hour,
	})
	background(t, f.Run)
	background(t, loop.Run)
	if err := c.nodes.Delete(t.Context(), "", "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually(10*time.Second, func() error {
		for i := range 3 {
			if _, err := c.pods.Get(t.Context(), "default", fmt.Sprint("lost-", i)); !apierrors.IsNotFound(err) {
				return fmt.Errorf("pod is there: %w", err)
			}
		}
		return nil
	})
	if p, err := c.pods.Get(t.Context(), "default", "kept"); err != nil || p.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod of the node that stays: %+v, %v", p, err)
	}
}
