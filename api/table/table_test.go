package table_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/api/table"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const created = `creationTimestamp: "2026-03-01T11:55:00Z"` // 5m before now

// load reads an object, and proves that a Writer has the same cells for its
// stored form as Row has for the object.
func load(t *testing.T, text string, obj api.Object) {
	t.Helper()
	if err := unmarshal(text, obj); err != nil {
		t.Fatal(err)
	}
	value, err := api.EncodeStored(obj)
	if err != nil {
		t.Fatal(err)
	}
	r := api.ByType(obj)
	got, err := table.NewWriter(r, now).AppendStored(nil, value)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(table.Row(r, obj, now).Cells)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the cells of the stored form are %s, want %s", got, want)
	}
}

func unmarshal(text string, obj api.Object) error {
	_, err := api.Decode([]byte(text), api.MediaYAML, obj, api.Strict)
	return err
}

// Every kind has as many cells as columns, whatever is in the object.
func TestCellsFitColumns(t *testing.T) {
	for _, r := range api.Resources() {
		columns := table.Columns(r)
		cells := table.Row(r, r.New(), now).Cells
		if len(columns) != len(cells) {
			t.Errorf("%s: %d columns, %d cells", r.Kind, len(columns), len(cells))
		}
		if r.Kind != "Event" && (columns[0].Name != "Name" || columns[0].Format != "name") {
			t.Errorf("%s: the first column is no name", r.Kind)
		}
		for i, c := range columns {
			_, integer := cells[i].(int64)
			if c.Type == "integer" && !integer {
				t.Errorf("%s: %s holds %T", r.Kind, c.Name, cells[i])
			}
		}
	}
}

// header returns the names of columns as kubectl prints them; wide ones stand
// behind a bar.
func header(r *api.Resource) string {
	var narrow, wide []string
	for _, c := range table.Columns(r) {
		if c.Priority == 0 {
			narrow = append(narrow, strings.ToUpper(c.Name))
		} else {
			wide = append(wide, strings.ToUpper(c.Name))
		}
	}
	return strings.TrimSuffix(strings.Join(narrow, " ")+" | "+strings.Join(wide, " "), " | ")
}

func TestColumns(t *testing.T) {
	got := map[string]string{}
	for _, r := range api.Resources() {
		if !r.CreateOnly {
			got[r.Kind] = header(r)
		}
	}
	want := map[string]string{
		"Pod":                      "NAME READY STATUS RESTARTS AGE | IP NODE NOMINATED NODE READINESS GATES",
		"CustomResourceDefinition": "NAME CREATED AT",
		"Deployment":               "NAME READY UP-TO-DATE AVAILABLE AGE | CONTAINERS IMAGES SELECTOR",
		"ReplicaSet":               "NAME DESIRED CURRENT READY AGE | CONTAINERS IMAGES SELECTOR",
		"Node":                     "NAME STATUS ROLES AGE VERSION | INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME",
		"Namespace":                "NAME STATUS AGE",
		"ConfigMap":                "NAME DATA AGE",
		"Secret":                   "NAME TYPE DATA AGE",
		"ServiceAccount":           "NAME SECRETS AGE",
		"Event":                    "LAST SEEN TYPE REASON OBJECT MESSAGE | SUBOBJECT SOURCE FIRST SEEN COUNT NAME",
		"Lease":                    "NAME HOLDER AGE",
		"WasmModule":               "NAME DIGEST ABI SIZE READY AGE",
		"AdmissionPlugin":          "NAME MODULE PHASES MODE POLICY READY FAILURES AGE",

		"AuthenticationPlugin": "NAME MODULE ORDER READY FAILURES AGE",
		"AuthorizationPlugin":  "NAME MODULE ORDER READY FAILURES AGE",
		"ConversionPlugin":     "NAME MODULE CRD READY FAILURES AGE",
		"PolicyReport":         "NAME PASS FAIL WARN ERROR SKIP AGE",
		"PolicyScan":           "NAME PLUGIN SOURCE PHASE PROCESSED AGE",
		"Reconciler":           "NAME MODULE FOR OBJECTS FAILING READY FAILURES AGE",
		"SchedulerPlugin":      "NAME MODULE POINTS READY FAILURES AGE",
		"VirtualAPI":           "NAME MODULE RESOURCES READY FAILURES AGE",

		"MutatingAdmissionPolicy":          "NAME MUTATIONS PARAMKIND AGE",
		"MutatingAdmissionPolicyBinding":   "NAME POLICYNAME PARAMREF AGE",
		"MutatingWebhookConfiguration":     "NAME WEBHOOKS AGE",
		"ValidatingAdmissionPolicy":        "NAME VALIDATIONS PARAMKIND AGE",
		"ValidatingAdmissionPolicyBinding": "NAME POLICYNAME PARAMREF AGE",
		"ValidatingWebhookConfiguration":   "NAME WEBHOOKS AGE",
		"Role":                             "NAME CREATED AT",
		"ClusterRole":                      "NAME CREATED AT",
		"RoleBinding":                      "NAME ROLE AGE | USERS GROUPS SERVICEACCOUNTS",
		"ClusterRoleBinding":               "NAME ROLE AGE | USERS GROUPS SERVICEACCOUNTS",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRow(t *testing.T) {
	for name, tc := range map[string]struct {
		obj  api.Object
		in   string
		want []any
	}{
		"deployment": {
			&appsv1.Deployment{}, `{metadata: {name: web, ` + created + `}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {spec: {containers: [{name: a, image: "x:1"}, {name: b, image: "z:2"}]}}}, status: {replicas: 3, readyReplicas: 2, updatedReplicas: 3, availableReplicas: 1}}`,
			[]any{"web", "2/3", int64(3), int64(1), "5m", "a,b", "x:1,z:2", "app=web"},
		},
		"ReplicaSet": {
			&appsv1.ReplicaSet{}, `{metadata: {name: web-1, ` + created + `}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {spec: {containers: [{name: a, image: "x:1"}]}}}, status: {replicas: 2, readyReplicas: 1}}`,
			[]any{"web-1", int64(3), int64(2), int64(1), "5m", "a", "x:1", "app=web"},
		},
		"node": {
			&corev1.Node{}, `{metadata: {name: n1, ` + created + `, labels: {node-role.kubernetes.io/worker: "", node-role.kubernetes.io/control-plane: ""}}, spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: "True"}], addresses: [{type: InternalIP, address: 10.0.0.1}],
			  nodeInfo: {kubeletVersion: v1.37.2-proa, osImage: Debian, kernelVersion: "6.1", containerRuntimeVersion: "containerd://2.2.9", machineID: "", systemUUID: "", bootID: "", kubeProxyVersion: "", operatingSystem: linux, architecture: amd64}}}`,
			[]any{"n1", "Ready,SchedulingDisabled", "control-plane,worker", "5m", "v1.37.2-proa", "10.0.0.1", "<none>", "Debian", "6.1", "containerd://2.2.9"},
		},
		"node that is not ready": {
			&corev1.Node{}, `{metadata: {name: n1, ` + created + `, labels: {kubernetes.io/role: db}}, status: {conditions: [{type: Ready, status: "Unknown"}]}}`,
			[]any{"n1", "NotReady", "db", "5m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"},
		},
		"node nobody has heard of": {&corev1.Node{}, `{metadata: {name: n1}}`, []any{"n1", "Unknown", "<none>", "<unknown>", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"}},
		"namespace":                {&corev1.Namespace{}, `{metadata: {name: a, ` + created + `}, status: {phase: Active}}`, []any{"a", "Active", "5m"}},
		"ConfigMap":                {&corev1.ConfigMap{}, `{metadata: {name: a, ` + created + `}, data: {a: b}, binaryData: {c: eA==}}`, []any{"a", int64(2), "5m"}},
		"secret":                   {&corev1.Secret{}, `{metadata: {name: a, ` + created + `}, type: Opaque, data: {a: eA==}}`, []any{"a", "Opaque", int64(1), "5m"}},
		"account":                  {&corev1.ServiceAccount{}, `{metadata: {name: a, ` + created + `}, secrets: [{name: x}]}`, []any{"a", int64(1), "5m"}},
		"lease":                    {&coordinationv1.Lease{}, `{metadata: {name: a, ` + created + `}, spec: {holderIdentity: me}}`, []any{"a", "me", "5m"}},
		"event": {
			&corev1.Event{}, `{metadata: {name: a.1}, involvedObject: {kind: Pod, name: a, fieldPath: "spec.containers{c}"}, type: Normal, reason: Pulled, message: " done\n", source: {component: kubelet, host: n1}, firstTimestamp: "2026-03-01T11:00:00Z", lastTimestamp: "2026-03-01T11:59:00Z", count: 4, reportingComponent: "", reportingInstance: ""}`,
			[]any{"60s", "Normal", "Pulled", "pod/a", "spec.containers{c}", "kubelet, n1", "done", "60m", int64(4), "a.1"},
		},
		"event of the new sort": {
			&eventsv1.Event{}, `{metadata: {name: a.1}, regarding: {kind: Node}, type: Normal, reason: Up, note: hi, eventTime: "2026-03-01T11:59:00.000000Z", reportingController: x, reportingInstance: x-1}`,
			[]any{"60s", "Normal", "Up", "node", "", "x, x-1", "hi", "60s", int64(1), "a.1"},
		},
		"series of events": {
			&eventsv1.Event{}, `{metadata: {name: a.1}, eventTime: "2026-03-01T11:00:00.000000Z", series: {count: 7, lastObservedTime: "2026-03-01T11:59:30.000000Z"}}`,
			[]any{"30s", "", "", "", "", "", "", "60m", int64(7), "a.1"},
		},
		"module": {
			&pluginsv1.WasmModule{}, `{metadata: {name: a, ` + created + `}, status: {digest: "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", abi: proa/v1, sizeBytes: 1572864, conditions: [{type: Ready, status: "True", reason: x, message: "", lastTransitionTime: null}]}}`,
			[]any{"a", "sha256:2d711642b726", "proa/v1", "1.5Mi", "True", "5m"},
		},
		"role":         {&rbacv1.Role{}, `{metadata: {name: a, ` + created + `}, rules: []}`, []any{"a", "2026-03-01T11:55:00Z"}},
		"cluster role": {&rbacv1.ClusterRole{}, `{metadata: {name: "a:b", ` + created + `}, rules: []}`, []any{"a:b", "2026-03-01T11:55:00Z"}},
		"role binding": {
			&rbacv1.RoleBinding{}, `{metadata: {name: a, ` + created + `}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}, subjects: [{kind: User, name: ann}, {kind: Group, name: dev}, {kind: User, name: bob}, {kind: ServiceAccount, name: x, namespace: shop}]}`,
			[]any{"a", "ClusterRole/edit", "5m", "ann, bob", "dev", "shop/x"},
		},
		"cluster role binding": {
			&rbacv1.ClusterRoleBinding{}, `{metadata: {name: a, ` + created + `}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}`,
			[]any{"a", "ClusterRole/view", "5m", "", "", ""},
		},
		"module without code": {&pluginsv1.WasmModule{}, `{metadata: {name: a, ` + created + `}}`, []any{"a", "<none>", "<none>", "<none>", "Unknown", "5m"}},
		"plugin": {
			&pluginsv1.AdmissionPlugin{}, `{metadata: {name: a, ` + created + `}, spec: {module: m, phases: [Mutate, Validate], rules: [], mode: Warn, failurePolicy: Ignore}, status: {failures: 3, conditions: [{type: Ready, status: "False", reason: x, message: "", lastTransitionTime: null}]}}`,
			[]any{"a", "m", "Mutate,Validate", "Warn", "Ignore", "False", int64(3), "5m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			load(t, tc.in, tc.obj)
			if diff := cmp.Diff(tc.want, table.Row(api.ByType(tc.obj), tc.obj, now).Cells); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// status returns a container's status in YAML.
func status(name, state, more string) string {
	return "{name: " + name + `, image: "", imageID: "", state: {` + state + "}" + more + "}"
}

func TestPod(t *testing.T) {
	const (
		running  = `running: {}`
		finished = `terminated: {exitCode: 0, reason: Completed}`
		ok       = `, ready: true, restartCount: 0`
		notReady = `, ready: false, restartCount: 0`
		restarts = `, ready: true, restartCount: 3, lastState: {terminated: {exitCode: 1, finishedAt: "2026-03-01T11:55:00Z"}}`
		ready    = `{type: Ready, status: "True"}`
		initDone = `{type: Initialized, status: "True"}`
		inits    = `initContainers: [{name: i}, {name: j}], `
		sidecar  = `initContainers: [{name: s, restartPolicy: Always}], `
	)
	for name, tc := range map[string]struct {
		meta, spec, status string // fields
		ready              string
		want               string
		restarts           string
	}{
		"new":               {"", "", `phase: Pending`, "0/2", "Pending", "0"},
		"gated":             {"", "", `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]`, "0/2", "SchedulingGated", "0"},
		"runs":              {"", "", `phase: Running, containerStatuses: [` + status("a", running, ok) + `, ` + status("b", running, ok) + `]`, "2/2", "Running", "0"},
		"half ready":        {"", "", `phase: Running, containerStatuses: [` + status("a", running, ok) + `, ` + status("b", running, notReady) + `]`, "1/2", "Running", "0"},
		"restarted":         {"", "", `phase: Running, containerStatuses: [` + status("a", running, restarts) + `, ` + status("b", running, ok) + `]`, "2/2", "Running", "3 (5m ago)"},
		"creating":          {"", "", `phase: Pending, containerStatuses: [` + status("a", `waiting: {reason: ContainerCreating}`, notReady) + `]`, "0/2", "ContainerCreating", "0"},
		"crashes":           {"", "", `phase: Running, containerStatuses: [` + status("a", `waiting: {reason: CrashLoopBackOff}`, notReady) + `, ` + status("b", running, ok) + `]`, "1/2", "CrashLoopBackOff", "0"},
		"done":              {"", "", `phase: Succeeded, containerStatuses: [` + status("a", finished, notReady) + `, ` + status("b", finished, notReady) + `]`, "0/2", "Completed", "0"},
		"one done":          {"", "", `phase: Running, conditions: [` + ready + `], containerStatuses: [` + status("a", finished, notReady) + `, ` + status("b", running, ok) + `]`, "1/2", "Running", "0"},
		"one done, no more": {"", "", `phase: Running, containerStatuses: [` + status("a", finished, notReady) + `, ` + status("b", running, ok) + `]`, "1/2", "NotReady", "0"},
		"ended, no reason":  {"", "", `phase: Failed, containerStatuses: [` + status("a", `terminated: {exitCode: 7}`, notReady) + `]`, "0/2", "ExitCode:7", "0"},
		"killed":            {"", "", `phase: Failed, containerStatuses: [` + status("a", `terminated: {exitCode: 137, signal: 9}`, notReady) + `]`, "0/2", "Signal:9", "0"},
		"evicted":           {"", "", `phase: Failed, reason: Evicted`, "0/2", "Evicted", "0"},
		"going":             {`deletionTimestamp: "2026-03-01T11:59:00Z"`, "", `phase: Running, containerStatuses: [` + status("a", running, ok) + `]`, "1/2", "Terminating", "0"},
		"done and going":    {`deletionTimestamp: "2026-03-01T11:59:00Z"`, "", `phase: Succeeded, containerStatuses: [` + status("a", finished, notReady) + `]`, "0/2", "Completed", "0"},
		"lost":              {`deletionTimestamp: "2026-03-01T11:59:00Z"`, "", `phase: Running, reason: NodeLost`, "0/2", "Unknown", "0"},

		"first init":            {"", inits, `phase: Pending, initContainerStatuses: [` + status("i", running, notReady) + `]`, "0/2", "Init:0/2", "0"},
		"second init":           {"", inits, `phase: Pending, initContainerStatuses: [` + status("i", finished, ok) + `, ` + status("j", `waiting: {reason: PodInitializing}`, notReady) + `]`, "0/2", "Init:1/2", "0"},
		"init crashes":          {"", inits, `phase: Pending, initContainerStatuses: [` + status("i", `waiting: {reason: CrashLoopBackOff}`, `, ready: false, restartCount: 2`) + `]`, "0/2", "Init:CrashLoopBackOff", "2"},
		"init fails":            {"", inits, `phase: Failed, initContainerStatuses: [` + status("i", `terminated: {exitCode: 1, reason: Error}`, notReady) + `]`, "0/2", "Init:Error", "0"},
		"init fails, no reason": {"", inits, `phase: Failed, initContainerStatuses: [` + status("i", `terminated: {exitCode: 3}`, notReady) + `]`, "0/2", "Init:ExitCode:3", "0"},
		"inits done": {
			"", inits, `phase: Running, initContainerStatuses: [` + status("i", finished, `, ready: true, restartCount: 5`) + `, ` + status("j", finished, ok) + `], containerStatuses: [` + status("a", running, ok) + `, ` + status("b", running, ok) + `]`,
			"2/2", "Running", "0",
		},
		"initialized before": {
			"", inits, `phase: Running, conditions: [` + initDone + `], initContainerStatuses: [` + status("i", running, notReady) + `], containerStatuses: [` + status("a", `waiting: {reason: ImagePullBackOff}`, notReady) + `]`,
			"0/2", "ImagePullBackOff", "0",
		},
		"sidecar": {
			"", sidecar, `phase: Running, initContainerStatuses: [` + status("s", running, `, started: true, ready: true, restartCount: 1`) + `], containerStatuses: [` + status("a", running, ok) + `, ` + status("b", running, ok) + `]`,
			"3/3", "Running", "1",
		},
		"sidecar starts": {"", sidecar, `phase: Pending, initContainerStatuses: [` + status("s", running, `, started: false, ready: false, restartCount: 0`) + `]`, "0/3", "Init:0/1", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if tc.meta == "" {
				tc.meta = created
			}
			load(t, fmt.Sprintf(`{metadata: {name: p, %s}, spec: {%s containers: [{name: a}, {name: b}]}, status: {%s}}`, tc.meta, tc.spec, tc.status), pod)
			cells := table.Row(api.ByType(pod), pod, now).Cells
			if diff := cmp.Diff([]any{"p", tc.ready, tc.want, tc.restarts}, cells[:4]); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPodWide(t *testing.T) {
	pod := &corev1.Pod{}
	load(t, `{metadata: {name: p, `+created+`}, spec: {containers: [], nodeName: n1, readinessGates: [{conditionType: x}, {conditionType: z}]}, status: {phase: Running, nominatedNodeName: n2, podIPs: [{ip: 10.0.0.9}], conditions: [{type: z, status: "True"}]}}`, pod)
	want := []any{"p", "0/0", "Running", "0", "5m", "10.0.0.9", "n1", "n2", "1/2"}
	if diff := cmp.Diff(want, table.Row(api.ByType(pod), pod, now).Cells); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func BenchmarkPodRow(b *testing.B) {
	pod := &corev1.Pod{}
	if err := unmarshal(`{metadata: {name: p, `+created+`}, spec: {containers: [{name: a}]}, status: {phase: Running, containerStatuses: [`+status("a", "running: {}", ", ready: true, restartCount: 0")+`]}}`, pod); err != nil {
		b.Fatal(err)
	}
	r := api.ByType(pod)
	b.ReportAllocs()
	for b.Loop() {
		table.Row(r, pod, now)
	}
}

// The pod is one of a Deployment, running, 2 KiB of JSON.
func BenchmarkStoredPodRow(b *testing.B) {
	value, err := os.ReadFile("../testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	w := table.NewWriter(api.ByGVR("", "v1", "pods"), now)
	var cells []byte
	b.ReportAllocs()
	for b.Loop() {
		if cells, err = w.AppendStored(cells[:0], value); err != nil {
			b.Fatal(err)
		}
	}
}
