package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/client"
)

// stages are what a pod goes through, in order.
var stages = []struct { // a table
	name string
	seen func(*corev1.Pod) bool
}{
	{"CREATED", func(*corev1.Pod) bool { return true }},
	{"BOUND", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }},
	{"RUNNING", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }},
	{"READY", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}},
}

// A timeline is when a watch first showed each pod at each stage.
type timeline struct {
	began time.Time
	watch *client.Watch[*corev1.Pod]
	done  chan struct{}

	mu    sync.Mutex // guards the fields below
	order []string
	nodes map[string]string
	when  map[string][]time.Time
}

// follow begins to watch the pods that a selector matches; call stop in the
// end.
func follow(ctx context.Context, kubeconfig, selector string) (*timeline, error) {
	rest, err := client.FromKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	w, err := client.For[*corev1.Pod](rest).Watch(ctx, "default", metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	t := &timeline{
		began: time.Now(), watch: w, done: make(chan struct{}),
		nodes: map[string]string{}, when: map[string][]time.Time{},
	}
	go func() {
		defer close(t.done)
		for {
			e, err := w.Next(ctx)
			if err != nil {
				return
			}
			t.see(e.Object, time.Now())
		}
	}()
	return t, nil
}

// see notes which stages a pod has reached.
func (t *timeline) see(p *corev1.Pod, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.when[p.Name] == nil {
		t.order = append(t.order, p.Name)
		t.when[p.Name] = make([]time.Time, len(stages))
	}
	t.nodes[p.Name] = p.Spec.NodeName
	for i, s := range stages {
		if t.when[p.Name][i].IsZero() && s.seen(p) {
			t.when[p.Name][i] = now
		}
	}
}

// stop ends the watch.
func (t *timeline) stop() {
	t.watch.Close()
	<-t.done
}

// print writes how long after the beginning each stage was seen.
func (t *timeline) print(out io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	tw := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(tw, "POD\tNODE")
	for _, s := range stages {
		fmt.Fprintf(tw, "\t%s", s.name)
	}
	fmt.Fprintln(tw)
	for _, name := range t.order {
		fmt.Fprintf(tw, "%s\t%s", name, t.nodes[name])
		for _, at := range t.when[name] {
			fmt.Fprintf(tw, "\t+%v", at.Sub(t.began).Round(time.Millisecond))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
