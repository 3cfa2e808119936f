package validation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/api/validation"
)

// A row is an object in YAML, which is defaulted first, and its faults in order.
type row struct {
	in   string
	want []string
}

// run checks new objects.
func run[T api.Object](t *testing.T, empty func() T, rows map[string]row) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			obj := empty()
			load(t, tc.in, obj)
			compare(t, tc.want, texts(validation.Create(obj)))
		})
	}
}

func load(t *testing.T, text string, obj api.Object) {
	t.Helper()
	media := api.MediaYAML
	if strings.HasPrefix(text, `{"`) { // large, and much faster as JSON
		media = api.MediaJSON
	}
	if _, err := api.Decode([]byte(text), media, obj, api.Strict); err != nil {
		t.Fatal(err)
	}
	defaulting.Default(obj)
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// compare allows any order: what stands first is not upstream's promise.
func compare(t *testing.T, want, got []string) {
	t.Helper()
	count := map[string]int{}
	for _, s := range want {
		count[s]++
	}
	for _, s := range got {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			t.Errorf("faults (-want +got)\n%s", cmp.Diff(want, got))
			return
		}
	}
}

const (
	qualified    = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	dnsSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
)

func TestMetadata(t *testing.T) {
	run(t, func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, map[string]row{
		"plain":        {`metadata: {name: a, namespace: b, labels: {a: b}, finalizers: [example.com/x]}`, nil},
		"no name":      {`metadata: {namespace: b}`, []string{`metadata.name: Required value: name or generateName is required`}},
		"no namespace": {`metadata: {name: a}`, []string{`metadata.namespace: Required value`}},
		"bad name":     {`metadata: {name: A_B, namespace: b}`, []string{`metadata.name: Invalid value: "A_B": ` + dnsSubdomain}},
		"bad label":    {`metadata: {name: a, namespace: b, labels: {"a b": c}}`, []string{`metadata.labels: Invalid value: "a b": ` + qualified}},
		"finalizer":    {`metadata: {name: a, namespace: b, finalizers: [x]}`, []string{`metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`}},
		"owner":        {`metadata: {name: a, namespace: b, ownerReferences: [{apiVersion: v1, kind: Pod, name: "", uid: u}]}`, []string{`metadata.ownerReferences[0].name: Required value: must not be empty`}},
		"generateName": {`metadata: {name: a, generateName: "A_x-", namespace: b}`, []string{`metadata.generateName: Invalid value: "A_x-": ` + dnsSubdomain}},
	})
	run(t, func() *corev1.Namespace { return &corev1.Namespace{} }, map[string]row{
		"namespace":            {`metadata: {name: a}`, nil},
		"namespace with a dot": {`metadata: {name: a.b}`, []string{`metadata.name: Invalid value: "a.b": must not contain dots`, `metadata.labels: Invalid value: "a.b"`}[:1]},
		"in a namespace":       {`metadata: {name: a, namespace: b}`, []string{`metadata.namespace: Forbidden: not allowed on this type`}},
		"finalizers":           {`{metadata: {name: a}, spec: {finalizers: [kubernetes, foo]}}`, []string{`spec.finalizers: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified`}},
	})
}

func TestUpdateMetadata(t *testing.T) {
	old := &corev1.ConfigMap{}
	load(t, `metadata: {name: a, namespace: b, uid: u, resourceVersion: "7", generation: 2, creationTimestamp: "2026-01-01T00:00:00Z"}`, old)
	for name, tc := range map[string]struct {
		change func(*corev1.ConfigMap)
		want   []string
	}{
		"nothing":            {func(*corev1.ConfigMap) {}, nil},
		"no resourceVersion": {func(o *corev1.ConfigMap) { o.ResourceVersion = "" }, nil},
		"uid":                {func(o *corev1.ConfigMap) { o.UID = "x" }, []string{`metadata.uid: Invalid value: "x": field is immutable`}},
		"namespace":          {func(o *corev1.ConfigMap) { o.Namespace = "x" }, []string{`metadata.namespace: Invalid value: "x": field is immutable`}},
		"generation":         {func(o *corev1.ConfigMap) { o.Generation = 1 }, []string{`metadata.generation: Invalid value: 1: must not be decremented`}},
		"created":            {func(o *corev1.ConfigMap) { o.CreationTimestamp.Time = o.CreationTimestamp.Add(1e9) }, []string{`metadata.creationTimestamp: Invalid value: "2026-01-01T00:00:01Z": field is immutable`}},
		"deleted":            {func(o *corev1.ConfigMap) { o.DeletionTimestamp = &o.CreationTimestamp }, []string{`metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable`}},
		"finalizer":          {func(o *corev1.ConfigMap) { o.Finalizers = []string{"x"} }, []string{`metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := old.DeepCopy()
			tc.change(obj)
			compare(t, tc.want, texts(validation.Update(obj, old)))
		})
	}
	lease := &coordinationv1.Lease{}
	load(t, `metadata: {name: a, namespace: b}`, lease)
	compare(t, []string{`metadata.resourceVersion: Invalid value: "": must be specified for an update`}, texts(validation.Update(lease, lease)))
}

func TestApps(t *testing.T) {
	deployment := func(fields string) string {
		return `{metadata: {name: a, namespace: b}, spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}, ` + fields + `}}`
	}
	run(t, func() *appsv1.Deployment { return &appsv1.Deployment{} }, map[string]row{
		"plain":       {deployment(`selector: {matchLabels: {a: b}}`), nil},
		"no selector": {deployment(``), []string{`spec.selector: Required value`, "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}},
		"empty selector": {deployment(`selector: {}`), []string{
			`spec.selector: Invalid value: {}: empty selector is invalid for deployment`,
		}},
		"selector of others": {deployment(`selector: {matchLabels: {a: c}}`), []string{
			"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
		}},
		"numbers": {deployment(`selector: {matchLabels: {a: b}}, replicas: -1, minReadySeconds: 5, progressDeadlineSeconds: 5, revisionHistoryLimit: -1`), []string{
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
			`spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`,
			`spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds`,
		}},
		"unknown strategy":           {deployment(`selector: {matchLabels: {a: b}}, strategy: {type: Odd}`), []string{`spec.strategy: Unsupported value: {"type":"Odd"}: supported values: "Recreate", "RollingUpdate"`}},
		"recreate, with bounds":      {deployment(`selector: {matchLabels: {a: b}}, strategy: {type: Recreate, rollingUpdate: {}}`), []string{"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
		"bounds that hold it still":  {deployment(`selector: {matchLabels: {a: b}}, strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}`), []string{"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"}},
		"bounds out of range":        {deployment(`selector: {matchLabels: {a: b}}, strategy: {rollingUpdate: {maxSurge: -1, maxUnavailable: 101%}}`), []string{`spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0`, `spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		"bounds that are no numbers": {deployment(`selector: {matchLabels: {a: b}}, strategy: {rollingUpdate: {maxSurge: many}}`), []string{`spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`}},
		"template": {`{metadata: {name: a, namespace: b}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 3, containers: [{name: c}]}}}}`, []string{
			`spec.template.spec.containers[0].image: Required value`,
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
			`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported`,
		}},
	})
	run(t, func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} }, map[string]row{
		"ReplicaSet":                     {deployment(`selector: {matchLabels: {a: b}}`), nil},
		"ReplicaSet without a selector":  {deployment(`replicas: -1`), []string{`spec.replicas: Invalid value: -1: must be greater than or equal to 0`, `spec.selector: Required value`, "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}},
		"ReplicaSet, selector of others": {deployment(`selector: {matchLabels: {a: c}}`), []string{"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}},
	})

	old, now := &appsv1.Deployment{}, &appsv1.Deployment{}
	load(t, deployment(`selector: {matchLabels: {a: b}}`), old)
	load(t, strings.ReplaceAll(deployment(`selector: {matchLabels: {a: b}}`), "a: b", "a: c"), now)
	compare(t, []string{`spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable`}, texts(validation.Update(now, old)))
	now = old.DeepCopy()
	now.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 2, AvailableReplicas: 3, UpdatedReplicas: -1}
	compare(t, []string{
		`status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0`,
		`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`,
		`status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas`,
		`status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas`,
	}, texts(validation.UpdateStatus(now, old)))
	rs := &appsv1.ReplicaSet{}
	rs.Status = appsv1.ReplicaSetStatus{Replicas: 1, FullyLabeledReplicas: 2}
	compare(t, []string{`status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas`}, texts(validation.UpdateStatus(rs, &appsv1.ReplicaSet{})))
}

func TestConfig(t *testing.T) {
	run(t, func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, map[string]row{
		"keys": {`{metadata: {name: a, namespace: b}, data: {"a/b": x, c: z}, binaryData: {c: eA==, ..: eA==}}`, []string{
			`data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
			`data[c]: Invalid value: "c": duplicate of key present in binaryData`,
			`binaryData[..]: Invalid value: "..": must not be '..'`,
		}},
		"too large": {`{"metadata": {"name": "a", "namespace": "b"}, "data": {"a": "` + strings.Repeat("x", 1<<20+1) + `"}}`, []string{`[]: Too long: may not be more than 1048576 bytes`}},
	})
	run(t, func() *corev1.Secret { return &corev1.Secret{} }, map[string]row{
		"plain":           {`{metadata: {name: a, namespace: b}, stringData: {a: b}}`, nil},
		"too large":       {`{"metadata": {"name": "a", "namespace": "b"}, "stringData": {"a": "` + strings.Repeat("x", 1<<20+1) + `"}}`, []string{`data: Too long: may not be more than 1048576 bytes`}},
		"token":           {`{metadata: {name: a, namespace: b}, type: kubernetes.io/service-account-token}`, []string{`metadata.annotations[kubernetes.io/service-account.name]: Required value`}},
		"registry":        {`{metadata: {name: a, namespace: b}, type: kubernetes.io/dockerconfigjson}`, []string{`data[.dockerconfigjson]: Required value`}},
		"registry, odd":   {`{metadata: {name: a, namespace: b}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: x}}`, []string{`data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value`}},
		"password":        {`{metadata: {name: a, namespace: b}, type: kubernetes.io/basic-auth}`, []string{`data[username]: Required value`, `data[password]: Required value`}},
		"SSH":             {`{metadata: {name: a, namespace: b}, type: kubernetes.io/ssh-auth}`, []string{`data[ssh-privatekey]: Required value`}},
		"TLS":             {`{metadata: {name: a, namespace: b}, type: kubernetes.io/tls, stringData: {tls.crt: ""}}`, []string{`data[tls.key]: Required value`}},
		"type of another": {`{metadata: {name: a, namespace: b}, type: example.com/x}`, nil},
	})

	old, now := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	load(t, `{metadata: {name: a, namespace: b}, immutable: true, data: {a: b}}`, old)
	load(t, `{metadata: {name: a, namespace: b}, data: {a: c}}`, now)
	compare(t, []string{"immutable: Forbidden: field is immutable when `immutable` is set", "data: Forbidden: field is immutable when `immutable` is set"}, texts(validation.Update(now, old)))
	oldSecret, secret := &corev1.Secret{}, &corev1.Secret{}
	load(t, `{metadata: {name: a, namespace: b}, immutable: true, data: {a: eA==}}`, oldSecret)
	load(t, `{metadata: {name: a, namespace: b}, immutable: true, type: x/y}`, secret)
	compare(t, []string{`type: Invalid value: "x/y": field is immutable`, "data: Forbidden: field is immutable when `immutable` is set"}, texts(validation.Update(secret, oldSecret)))
	compare(t, nil, texts(validation.Update(oldSecret, oldSecret)))
}

func TestCluster(t *testing.T) {
	run(t, func() *corev1.Node { return &corev1.Node{} }, map[string]row{
		"plain": {`{metadata: {name: a}, spec: {taints: [{key: a, effect: NoSchedule}], podCIDRs: [10.1.0.0/24, "fd00::/64"]}, status: {capacity: {cpu: 1, pods: 10}}}`, nil},
		"taints": {`{metadata: {name: a}, spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule, value: x}, {key: b}, {key: c, effect: Odd}]}}`, []string{
			`metadata.taints[1]: Duplicate value: {"key":"a","value":"x","effect":"NoSchedule"}: taints must be unique by key and effect pair`,
			`metadata.taints[2].effect: Required value`,
			`metadata.taints[3].effect: Unsupported value: "Odd": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		}},
		"capacity": {`{metadata: {name: a}, status: {capacity: {cpu: -1, pods: 1.5}, allocatable: {}}}`, []string{
			`status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`,
			`status.capacity.pods: Invalid value: "1500m": must be an integer`,
		}},
		"ranges": {`{metadata: {name: a}, spec: {podCIDRs: [10.1.0.0/24, 10.2.0.0/24]}}`, []string{`spec.podCIDRs: Invalid value: ["10.1.0.0/24","10.2.0.0/24"]: may specify no more than one CIDR for each IP family`}},
	})
	old := &corev1.Node{}
	load(t, `{metadata: {name: a}, spec: {podCIDR: 10.1.0.0/24, providerID: x}}`, old)
	now := old.DeepCopy()
	now.Spec.PodCIDRs, now.Spec.ProviderID = []string{"10.2.0.0/24"}, "y"
	compare(t, []string{
		`spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`,
		`spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`,
	}, texts(validation.Update(now, old)))

	ns := &corev1.Namespace{}
	load(t, `{metadata: {name: a}, status: {phase: Terminating}}`, ns)
	compare(t, []string{"status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"}, texts(validation.UpdateStatus(ns, ns)))

	run(t, func() *coordinationv1.Lease { return &coordinationv1.Lease{} }, map[string]row{
		"lease":        {`{metadata: {name: a, namespace: b}, spec: {holderIdentity: "", leaseDurationSeconds: 1}}`, nil},
		"lease, wrong": {`{metadata: {name: a, namespace: b}, spec: {leaseDurationSeconds: 0, leaseTransitions: -1, preferredHolder: x}}`, []string{`spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0`, `spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0`, "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"}},
	})
	run(t, func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} }, map[string]row{
		"account": {`metadata: {name: a, namespace: b}`, nil},
	})
	run(t, func() *corev1.Binding { return &corev1.Binding{} }, map[string]row{
		"binding":              {`target: {kind: Node, name: n1}`, nil},
		"binding to nothing":   {`target: {name: ""}`, []string{`target.name: Required value`}},
		"binding to something": {`target: {kind: Pod, name: n1}`, []string{`target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`}},
	})
	run(t, func() *autoscalingv1.Scale { return &autoscalingv1.Scale{} }, map[string]row{
		"scale": {`spec: {replicas: -1}`, []string{`spec.replicas: Invalid value: -1: must be greater than or equal to 0`}},
	})
	run(t, func() *authenticationv1.TokenRequest { return &authenticationv1.TokenRequest{} }, map[string]row{
		"token":           {`spec: {audiences: []}`, nil},
		"token, too soon": {`spec: {audiences: [], expirationSeconds: 1}`, []string{`spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes`}},
		"token, too late": {`spec: {audiences: [], expirationSeconds: 4294967297}`, []string{`spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`}},
	})
}

func TestEvents(t *testing.T) {
	run(t, func() *corev1.Event { return &corev1.Event{} }, map[string]row{
		"old sort":                 {`{metadata: {name: A_1, namespace: b}, involvedObject: {namespace: b}, reportingComponent: "", reportingInstance: ""}`, nil},
		"about the whole cluster":  {`{metadata: {name: a, namespace: default}, involvedObject: {}, reportingComponent: "", reportingInstance: ""}`, nil},
		"about another namespace":  {`{metadata: {name: a, namespace: b}, involvedObject: {namespace: c}, reportingComponent: "", reportingInstance: ""}`, []string{`involvedObject.namespace: Invalid value: "c": does not match event.namespace`}},
		"new sort, little in it":   {`{metadata: {name: a, namespace: b}, involvedObject: {namespace: b}, eventTime: "2026-01-01T00:00:00.000000Z", reportingComponent: x, reportingInstance: ""}`, []string{`reportingInstance: Required value`, `action: Required value`, `reason: Required value`}},
		"name that is not a name":  {`{metadata: {name: a/b, namespace: b}, involvedObject: {namespace: b}, reportingComponent: "", reportingInstance: ""}`, []string{`metadata.name: Invalid value: "a/b": may not contain '/'`}},
		"new sort, much too long":  {`{metadata: {name: a, namespace: b}, involvedObject: {namespace: b}, eventTime: "2026-01-01T00:00:00.000000Z", reportingComponent: x, reportingInstance: z, action: z, reason: ` + strings.Repeat("r", 129) + `, message: ` + strings.Repeat("m", 1025) + `}`, []string{`reason: Too long: may not be more than 128 bytes`, `message: Too long: may not be more than 1024 bytes`}},
		"new sort, from no source": {`{metadata: {name: a, namespace: b}, involvedObject: {namespace: b}, eventTime: "2026-01-01T00:00:00.000000Z", reportingComponent: "", reportingInstance: z, action: z, reason: r}`, []string{`reportingComponent: Required value`, `reportingComponent: Invalid value: "": name part must be non-empty`, `reportingComponent: Invalid value: "": ` + qualified}},
	})
	const v1 = `metadata: {name: a, namespace: b}, regarding: {namespace: b}, eventTime: "2026-01-01T00:00:00.000000Z", reportingController: x, reportingInstance: z, action: z, reason: r, type: Normal`
	run(t, func() *eventsv1.Event { return &eventsv1.Event{} }, map[string]row{
		"events.k8s.io":               {`{` + v1 + `}`, nil},
		"events.k8s.io, in old terms": {`{` + v1 + `, deprecatedCount: 3, deprecatedSource: {component: x}}`, []string{`count: Invalid value: "": needs to be unset`, `source: Invalid value: "": needs to be unset`}},
		"events.k8s.io, odd type":     {`{` + strings.Replace(v1, "Normal", "Odd", 1) + `}`, []string{`type: Invalid value: "": has invalid value: Odd`}},
		"events.k8s.io, series":       {`{` + v1 + `, series: {count: 1, lastObservedTime: "2026-01-01T00:00:00.000000Z"}}`, []string{`series.count: Invalid value: "": should be at least 2`}},
	})
	old, now := &eventsv1.Event{}, &eventsv1.Event{}
	load(t, `{`+v1+`}`, old)
	load(t, `{`+v1+`, note: other, series: {count: 2, lastObservedTime: "2026-01-01T00:00:00.000000Z"}}`, now)
	compare(t, []string{`message: Invalid value: "other": field is immutable`}, texts(validation.Update(now, old)))
}

func TestPlugins(t *testing.T) {
	const sum = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of x
	run(t, func() *pluginsv1.WasmModule { return &pluginsv1.WasmModule{} }, map[string]row{
		"to be uploaded":  {`metadata: {name: a}`, nil},
		"pinned":          {`{metadata: {name: a}, spec: {code: eA==, digest: "` + sum + `"}}`, nil},
		"pinned to other": {`{metadata: {name: a}, spec: {code: eQ==, digest: "` + sum + `"}}`, []string{`spec.digest: Invalid value: "` + sum + `": does not match the code`}},
		"no digest":       {`{metadata: {name: a}, spec: {digest: "sha256:1"}}`, []string{`spec.digest: Invalid value: "sha256:1": must be sha256: and 64 lower-case hexadecimal digits`}},
		"too large":       {`{"metadata": {"name": "a"}, "spec": {"code": "` + strings.Repeat("AAAA", 1<<20/3+1) + `"}}`, []string{`spec.code: Too long: may not be more than 1048576 bytes`}},
	})
	const rule = `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`
	run(t, func() *pluginsv1.AdmissionPlugin { return &pluginsv1.AdmissionPlugin{} }, map[string]row{
		"plain":   {`{metadata: {name: a}, spec: {module: m, phases: [Mutate, Validate], rules: [` + rule + `], settings: {a: 1}, limits: {timeoutMillis: 1000, memoryMiB: 128}}}`, nil},
		"nothing": {`{metadata: {name: a}, spec: {module: "", phases: [], rules: []}}`, []string{`spec.module: Required value`, `spec.phases: Required value`, `spec.rules: Required value`}},
		"all wrong": {`{metadata: {name: a}, spec: {module: M, phases: [Validate, Validate, Odd], rules: [{}], settings: [], failurePolicy: Maybe, limits: {timeoutMillis: 1001, memoryMiB: -1, fuel: -1}, objectSelector: {matchExpressions: [{key: a, operator: Odd}]}}}`, []string{
			`spec.module: Invalid value: "M": ` + dnsSubdomain,
			`spec.phases[1]: Duplicate value: "Validate"`,
			`spec.phases[2]: Unsupported value: "Odd": supported values: "Mutate", "Validate"`,
			`spec.rules[0].operations: Required value`, `spec.rules[0].apiGroups: Required value`, `spec.rules[0].apiVersions: Required value`, `spec.rules[0].resources: Required value`,
			`spec.objectSelector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator`,
			`spec.settings: Invalid value: "[]": must be an object`,
			`spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"`,
			`spec.limits.timeoutMillis: Invalid value: 1001: must be between 0 and 1000, inclusive`,
			`spec.limits.memoryMiB: Invalid value: -1: must be between 0 and 128, inclusive`,
			`spec.limits.fuel: Invalid value: -1: must be greater than or equal to 0`,
		}},
		"rules": {`{metadata: {name: a}, spec: {module: m, phases: [Mutate], rules: [{operations: ["*", CREATE, Odd], apiGroups: ["*", a], apiVersions: ["*", ""], resources: ["*", pods, pods/status, "*/status", "pods/"], scope: Odd}]}}`, []string{
			`spec.rules[0].operations: Invalid value: ["*","CREATE","Odd"]: if '*' is present, must not specify other operations`,
			`spec.rules[0].operations[2]: Unsupported value: "Odd": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`,
			`spec.rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups`,
			`spec.rules[0].apiVersions: Invalid value: ["*",""]: if '*' is present, must not specify other API versions`,
			`spec.rules[0].apiVersions[1]: Required value`,
			`spec.rules[0].resources[1]: Invalid value: "pods": if '*' is present, must not specify other resources without subresources`,
			`spec.rules[0].resources[2]: Invalid value: "pods/status": if '*/status' is present, must not specify pods/status`,
			`spec.rules[0].resources[4]: Invalid value: "pods/": must be in the form of resource/subresource`,
			`spec.rules[0].scope: Unsupported value: "Odd": supported values: "*", "Cluster", "Namespaced"`,
		}},
	})
	plugin := &pluginsv1.AdmissionPlugin{}
	load(t, `{metadata: {name: a, resourceVersion: "1"}, spec: {module: m, phases: [], rules: []}, status: {conditions: [{type: Ready, status: Maybe, reason: x, message: z, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`, plugin)
	compare(t, []string{`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`}, texts(validation.UpdateStatus(plugin, plugin)))
}

func BenchmarkCreatePod(b *testing.B) {
	pod := &corev1.Pod{}
	if _, err := api.Decode([]byte(podWith("nodeName: n1")), api.MediaYAML, pod, api.Strict); err != nil {
		b.Fatal(err)
	}
	defaulting.Default(pod)
	b.ReportAllocs()
	for b.Loop() {
		if errs := validation.Create(pod); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
