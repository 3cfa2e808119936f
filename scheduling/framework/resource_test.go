package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"
)

func quantities(kv ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		l[corev1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return l
}

func container(kv ...string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: quantities(kv...)}}
}

func sidecar(kv ...string) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c := container(kv...)
	c.RestartPolicy = &always
	return c
}

func TestPodRequests(t *testing.T) {
	const mi = 1 << 20
	tests := []struct {
		name          string
		spec          corev1.PodSpec
		want, nonZero Resource
	}{
		{
			name:    "containers add up",
			spec:    corev1.PodSpec{Containers: []corev1.Container{container("cpu", "100m", "memory", "1Mi"), container("cpu", "1", "memory", "2Mi")}},
			want:    Resource{MilliCPU: 1100, Memory: 3 * mi},
			nonZero: Resource{MilliCPU: 1100, Memory: 3 * mi},
		},
		{
			name:    "defaults for what is not stated, and only for that",
			spec:    corev1.PodSpec{Containers: []corev1.Container{container("cpu", "0"), container()}},
			nonZero: Resource{MilliCPU: 100, Memory: 400 * mi},
		},
		{
			name: "an init container needs more than the containers",
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{container("cpu", "2", "memory", "1Mi")},
				Containers:     []corev1.Container{container("cpu", "1", "memory", "5Mi")},
			},
			want:    Resource{MilliCPU: 2000, Memory: 5 * mi},
			nonZero: Resource{MilliCPU: 2000, Memory: 5 * mi},
		},
		{
			name: "sidecars run beside later init containers and the containers",
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{container("cpu", "3", "memory", "1Mi"), sidecar("cpu", "1", "memory", "1Mi"), container("cpu", "3", "memory", "1Mi")},
				Containers:     []corev1.Container{container("cpu", "2", "memory", "1Mi")},
			},
			want:    Resource{MilliCPU: 4000, Memory: 2 * mi},
			nonZero: Resource{MilliCPU: 4000, Memory: 2 * mi},
		},
		{
			name: "overhead",
			spec: corev1.PodSpec{
				Containers: []corev1.Container{container("cpu", "1", "memory", "1Mi")},
				Overhead:   quantities("cpu", "250m", "memory", "10Mi"),
			},
			want:    Resource{MilliCPU: 1250, Memory: 11 * mi},
			nonZero: Resource{MilliCPU: 1250, Memory: 11 * mi},
		},
		{
			name:    "extended resources",
			spec:    corev1.PodSpec{Containers: []corev1.Container{container("example.com/gpu", "2", "ephemeral-storage", "1Mi")}},
			want:    Resource{EphemeralStorage: mi, Scalar: map[corev1.ResourceName]int64{"example.com/gpu": 2}},
			nonZero: Resource{MilliCPU: 100, Memory: 200 * mi, EphemeralStorage: mi, Scalar: map[corev1.ResourceName]int64{"example.com/gpu": 2}},
		},
		{
			name: "pod-level requests replace the sum",
			spec: corev1.PodSpec{
				Containers: []corev1.Container{container("cpu", "1"), container("cpu", "1")},
				Resources:  &corev1.ResourceRequirements{Requests: quantities("cpu", "3", "memory", "7Mi")},
			},
			want:    Resource{MilliCPU: 3000, Memory: 7 * mi},
			nonZero: Resource{MilliCPU: 3000, Memory: 7 * mi},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, nonZero := podRequests(&corev1.Pod{Spec: test.spec})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests: %s", diff)
			}
			if diff := cmp.Diff(test.nonZero, nonZero); diff != "" {
				t.Errorf("non-zero: %s", diff)
			}
		})
	}
}

// The short way for simple pods gives what Kubernetes' own arithmetic gives.
func TestSimpleRequests_twin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pod corev1.Pod
		for range rapid.IntRange(1, 4).Draw(t, "containers") {
			l := corev1.ResourceList{}
			for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "example.com/gpu"} {
				if rapid.Bool().Draw(t, "has") {
					n := rapid.Int64Range(0, 1<<33).Draw(t, "n")
					if name == "cpu" {
						l[name] = *resource.NewMilliQuantity(n%64000, resource.DecimalSI)
					} else {
						l[name] = *resource.NewQuantity(n, resource.BinarySI)
					}
				}
			}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: l}})
		}
		if !simplePod(&pod) {
			t.Fatal("not simple")
		}
		got, nonZero := simpleRequests(&pod)
		if diff := cmp.Diff(NewResource(resourcehelper.PodRequests(&pod, resourcehelper.PodResourcesOptions{})), got); diff != "" {
			t.Fatal(diff)
		}
		want := NewResource(resourcehelper.PodRequests(&pod, resourcehelper.PodResourcesOptions{
			NonMissingContainerRequests: quantities("cpu", "100m", "memory", "200Mi"),
		}))
		if diff := cmp.Diff(want, nonZero); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestResource_addSub(t *testing.T) {
	a := Resource{MilliCPU: 1, Scalar: map[corev1.ResourceName]int64{"x": 1}}
	b := Resource{MilliCPU: 2, Memory: 3, Scalar: map[corev1.ResourceName]int64{"x": 1, "y": 2}}
	sum := a.Add(b)
	if diff := cmp.Diff(Resource{MilliCPU: 3, Memory: 3, Scalar: map[corev1.ResourceName]int64{"x": 2, "y": 2}}, sum); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a, sum.Sub(b)); diff != "" {
		t.Error(diff)
	}
	if len(a.Scalar) != 1 {
		t.Error("Add has changed its operand")
	}
}
