package httpapi_test

import (
	"bufio"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/httpapi/dynamic"
)

// TestKubectl is a day with kubectl.
func TestKubectl(t *testing.T) {
	f := newFixture(t)
	k := newKubectl(t, f)
	pod := `
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: c, image: "nginx:1"}
`
	expect := k.expecter()
	expect("pod/web created", pod, "apply", "-f", "-")
	expect("pod/web unchanged", pod, "apply", "-f", "-")
	expect("pod/web configured", strings.Replace(pod, "nginx:1", "nginx:2", 1), "apply", "-f", "-")
	expect("nginx:2", "", "get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}")
	expect("AlreadyExists", pod, "create", "-f", "-")
	expect("pod updates may not change fields other than", strings.Replace(pod, "name: c", "name: d", 1), "replace", "-f", "-")
	expect("pod/web labeled", "", "label", "pod", "web", "x=y")
	expect("web", "", "get", "pods", "-l", "x=y", "-o", "name")
	expect("No resources found", "", "get", "pods", "-l", "x=z")
	expect("pod/web annotated", "", "annotate", "pod", "web", "a=b")
	expect("pod/web patched", "", "patch", "pod", "web", "-p", `{"metadata":{"labels":{"x":null}}}`)
	expect("pod/web patched", "", "patch", "pod", "web", "--type=json", "-p", `[{"op":"add","path":"/metadata/labels/j","value":"1"}]`)
	expect("pod/web patched", "", "patch", "pod", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running"}}`)
	expect("condition met", "", "wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=10s")
	expect("web", "", "get", "pods", "--field-selector=status.phase=Running")
	expect(`unknown field "spec.foo"`, pod+"  foo: 1\n", "create", "-f", "-", "--dry-run=server")
	expect("configmap/cm created", "", "create", "configmap", "cm", "--from-literal=a=b")
	expect("configmap/cm replaced", mapJSON("cm", ""), "replace", "-f", "-")
	expect("secret/s created", "", "create", "secret", "generic", "s", "--from-literal=a=b")
	expect("deployment.apps/d created", "", "create", "deployment", "d", "--image=nginx", "--replicas=3")
	expect("deployment.apps/d scaled", "", "scale", "deployment", "d", "--replicas=5")
	expect("5", "", "get", "deployment", "d", "-o", "jsonpath={.spec.replicas}")
	expect("namespace/foo created", "", "create", "namespace", "foo")
	expect("Active", "", "get", "ns", "foo", "-o", "jsonpath={.status.phase}")
	expect("kube-system", "", "get", "ns")
	expect("cannot list resource", "", "get", "pods", "--token=bob")
	expect("deployment.apps/d", "", "get", "all")
	expect("wasmmodules", "", "api-resources", "-o", "name")
	expect("namespaces \"default\" is forbidden: this namespace may not be deleted", "", "delete", "ns", "default", "--wait=false")
	expect("pod \"web\" deleted", "", "delete", "pod", "web")
	expect("pods \"web\" not found", "", "get", "pod", "web")
	expect("deleted", "", "delete", "deploy,configmap,secret", "--all")
	expect("Server Version: v1.37.0+proa", "", "version")
}

// TestKubectlWatch has kubectl wait for what happens meanwhile.
func TestKubectlWatch(t *testing.T) {
	f := newFixture(t)
	k := newKubectl(t, f)
	f.mustMap(t, "a", `"l":"1"`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", "wait", "--for=delete", "configmap/a", "--timeout=20s", "--kubeconfig", k.config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The wait is under way when the server has its watch.
	for watching := false; !watching && ctx.Err() == nil; {
		watching = strings.Contains(f.do(t, "GET", "/metrics", "").Body, "apiserver_longrunning_requests 1")
	}
	f.mustDelete(t, mapsPath+"/a")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestKubectlVirtual is what kubectl does with a virtual resource.
func TestKubectlVirtual(t *testing.T) {
	f, kinds := newDynamicFixture(t)
	k := newKubectl(t, f)
	p := newToys("ball")
	if err := kinds.SetVirtual("test", []dynamic.Virtual{virtualToys(p)}); err != nil {
		t.Fatal(err)
	}
	top := `
apiVersion: toys.example.com/v1
kind: Toy
metadata: {name: top}
spec: {size: 3, color: red}
`
	expect := k.expecter()
	expect("ball   4", "", "get", "toys")
	expect("toys.toys.example.com", "", "api-resources", "-o", "name")
	expect("toy.toys.example.com/top created", top, "apply", "-f", "-")
	expect("toy.toys.example.com/top unchanged", top, "apply", "-f", "-")
	expect("toy.toys.example.com/top configured", strings.Replace(top, "red", "blue", 1), "apply", "-f", "-")
	expect("blue", "", "get", "ty", "top", "-o", "jsonpath={.spec.color}")
	expect("Color:  blue", "", "describe", "toy", "top")
	expect("KIND:       Toy", "", "explain", "toys")
	expect("toy.toys.example.com/top labeled", "", "label", "toy", "top", "x=y")
	expect("toy.toys.example.com/top patched", "", "patch", "toy", "top", "--type=merge", "-p", `{"spec":{"color":null}}`)
	expect(`toys.toys.example.com "none" not found`, "", "get", "toy", "none")
	expect("deleted", "", "delete", "toy", "top")

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", "get", "toys", "-w", "--kubeconfig", k.config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "ball") && strings.Contains(lines.Text(), "4") {
			p.put(toy("ball", map[string]any{"size": int64(77)}))
		}
		if strings.Contains(lines.Text(), "77") {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("kubectl get -w has not shown the change")
	}
	cancel()
	cmd.Wait()
}
