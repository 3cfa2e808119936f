package defaulting_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// What Kubernetes makes of a container that is a name and an image.
const plainContainer = `{name: a, image: "web:1", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}`

// The defaults of a pod template's spec, beside its containers.
const template = `restartPolicy: Always, dnsPolicy: ClusterFirst, schedulerName: default-scheduler, terminationGracePeriodSeconds: 30, securityContext: {}`

func TestDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		obj      runtime.Object
		in, want string
	}{
		"pod": {
			&corev1.Pod{},
			`spec: {containers: [{name: a, image: "web:1"}]}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [` + plainContainer + `]}`,
		},
		"pod with init containers": {
			&corev1.Pod{},
			`spec: {initContainers: [{name: a, image: "web:1"}], ephemeralContainers: [{name: a, image: "web:1"}], containers: []}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [], initContainers: [` + plainContainer + `], ephemeralContainers: [` + plainContainer + `]}`,
		},
		"what is set stays": {
			&corev1.Pod{},
			`spec: {restartPolicy: Never, dnsPolicy: Default, schedulerName: mine, terminationGracePeriodSeconds: 0, securityContext: {runAsUser: 7}, enableServiceLinks: false,
			  containers: [{name: a, image: web, imagePullPolicy: Never, terminationMessagePath: /x, terminationMessagePolicy: FallbackToLogsOnError}]}`,
			`spec: {restartPolicy: Never, dnsPolicy: Default, schedulerName: mine, terminationGracePeriodSeconds: 0, securityContext: {runAsUser: 7}, enableServiceLinks: false,
			  containers: [{name: a, image: web, imagePullPolicy: Never, terminationMessagePath: /x, terminationMessagePolicy: FallbackToLogsOnError, resources: {}}]}`,
		},
		"probes and hooks": {
			&corev1.Pod{},
			`spec: {containers: [{name: a, image: "web:1", livenessProbe: {httpGet: {port: 80}}, readinessProbe: {grpc: {port: 9}, periodSeconds: 3}, startupProbe: {exec: {command: [a]}, failureThreshold: 9},
			  lifecycle: {preStop: {httpGet: {port: 80}}, postStart: {exec: {command: [b]}}}}]}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [{name: a, image: "web:1", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
			  livenessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3},
			  readinessProbe: {grpc: {port: 9, service: ""}, timeoutSeconds: 1, periodSeconds: 3, successThreshold: 1, failureThreshold: 3},
			  startupProbe: {exec: {command: [a]}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 9},
			  lifecycle: {preStop: {httpGet: {port: 80, path: /, scheme: HTTP}}, postStart: {exec: {command: [b]}}}}]}`,
		},
		"environment": {
			&corev1.Pod{},
			`spec: {containers: [{name: a, image: "web:1", env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]}]}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [{name: a, image: "web:1", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
			  env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "0"}}}]}]}`,
		},
		"limits are requested, too": {
			&corev1.Pod{},
			`spec: {containers: [{name: a, image: "web:1", resources: {limits: {cpu: 0.1, memory: 1Gi}, requests: {cpu: 50m}}}]}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [{name: a, image: "web:1", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
			  resources: {limits: {cpu: 100m, memory: 1Gi}, requests: {cpu: 50m, memory: 1Gi}}}]}`,
		},
		"a whole pod is limited": {
			&corev1.Pod{},
			`spec: {resources: {limits: {cpu: 1, memory: 1Gi}}, containers: [{name: a, image: "web:1", resources: {requests: {cpu: 50m}}}]}`,
			`spec: {` + template + `, enableServiceLinks: true, resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 50m, memory: 1Gi}},
			  containers: [{name: a, image: "web:1", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, resources: {requests: {cpu: 50m}}}]}`,
		},
		"a whole pod with huge pages": {
			&corev1.Pod{},
			`spec: {resources: {requests: {cpu: 1}}, containers: [{name: a, image: "web:1", resources: {limits: {hugepages-2Mi: 4Mi}}}]}`,
			`spec: {` + template + `, enableServiceLinks: true, resources: {limits: {hugepages-2Mi: 4Mi}, requests: {cpu: "1", hugepages-2Mi: 4Mi}},
			  containers: [{name: a, image: "web:1", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, resources: {limits: {hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 4Mi}}}]}`,
		},
		"quantities are rounded up to thousandths": {
			&corev1.Pod{},
			`spec: {overhead: {cpu: 100u}, containers: []}`,
			`spec: {` + template + `, enableServiceLinks: true, overhead: {cpu: 1m}, containers: []}`,
		},
		"ports of the host's network": {
			&corev1.Pod{},
			`spec: {hostNetwork: true, containers: [{name: a, image: "web:1", ports: [{containerPort: 80}, {containerPort: 53, hostPort: 53, protocol: UDP}]}]}`,
			`spec: {` + template + `, enableServiceLinks: true, hostNetwork: true, containers: [{name: a, image: "web:1", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
			  ports: [{containerPort: 80, hostPort: 80, protocol: TCP}, {containerPort: 53, hostPort: 53, protocol: UDP}]}]}`,
		},
		"volumes": {
			&corev1.Pod{},
			`spec: {containers: [], volumes: [{name: a}, {name: b, secret: {secretName: s}}, {name: c, configMap: {name: s, defaultMode: 256}}, {name: d, hostPath: {path: /x}},
			  {name: e, downwardAPI: {items: [{path: x, fieldRef: {fieldPath: metadata.name}}]}},
			  {name: f, projected: {sources: [{serviceAccountToken: {path: token}}, {downwardAPI: {items: [{path: x, fieldRef: {fieldPath: metadata.name}}]}}, {configMap: {name: s}}]}},
			  {name: g, image: {reference: data}}, {name: h, iscsi: {targetPortal: p, iqn: q, lun: 0}}, {name: i, ephemeral: {volumeClaimTemplate: {spec: {resources: {}}}}}]}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [], volumes: [{name: a, emptyDir: {}}, {name: b, secret: {secretName: s, defaultMode: 420}}, {name: c, configMap: {name: s, defaultMode: 256}}, {name: d, hostPath: {path: /x, type: ""}},
			  {name: e, downwardAPI: {items: [{path: x, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}], defaultMode: 420}},
			  {name: f, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3600}}, {downwardAPI: {items: [{path: x, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}]}}, {configMap: {name: s}}], defaultMode: 420}},
			  {name: g, image: {reference: data, pullPolicy: Always}}, {name: h, iscsi: {targetPortal: p, iqn: q, lun: 0, iscsiInterface: default}}, {name: i, ephemeral: {volumeClaimTemplate: {spec: {resources: {}, volumeMode: Filesystem}}}}]}`,
		},
		"deployment": {
			&appsv1.Deployment{},
			`spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {hostNetwork: true, containers: [{name: a, image: "web:1", ports: [{containerPort: 80}], resources: {limits: {cpu: 1}}}]}}}`,
			`spec: {replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 25%}},
			  selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {` + template + `, hostNetwork: true,
			  containers: [{name: a, image: "web:1", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, ports: [{containerPort: 80, protocol: TCP}], resources: {limits: {cpu: "1"}}}]}}}`,
		},
		"deployment that recreates": {
			&appsv1.Deployment{},
			`spec: {replicas: 0, strategy: {type: Recreate}, template: {spec: {containers: []}}}`,
			`spec: {replicas: 0, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, strategy: {type: Recreate}, selector: null, template: {metadata: {}, spec: {` + template + `, containers: []}}}`,
		},
		"deployment with one bound": {
			&appsv1.Deployment{},
			`spec: {strategy: {rollingUpdate: {maxSurge: 0}}, template: {spec: {containers: []}}}`,
			`spec: {replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 25%}}, selector: null, template: {metadata: {}, spec: {` + template + `, containers: []}}}`,
		},
		"ReplicaSet": {
			&appsv1.ReplicaSet{},
			`spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: []}}}`,
			`spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {}, spec: {` + template + `, containers: []}}}`,
		},
		"secret":             {&corev1.Secret{}, `{}`, `type: Opaque`},
		"secret with a type": {&corev1.Secret{}, `type: kubernetes.io/tls`, `type: kubernetes.io/tls`},
		"secret in plain text": {
			&corev1.Secret{}, `{data: {a: eA==, b: eA==}, stringData: {b: hi, c: ho}}`, `{type: Opaque, data: {a: eA==, b: aGk=, c: aG8=}}`,
		},
		"old name of the account": {
			&corev1.Pod{}, `spec: {serviceAccount: a, containers: []}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [], serviceAccount: a, serviceAccountName: a}`,
		},
		"name of the account": {
			&corev1.Pod{}, `{spec: {serviceAccountName: a, serviceAccount: b, containers: []}}`,
			`spec: {` + template + `, enableServiceLinks: true, containers: [], serviceAccount: a, serviceAccountName: a}`,
		},
		"one address": {
			&corev1.Pod{}, `{spec: {containers: []}, status: {podIP: 10.0.0.1}}`,
			`{spec: {` + template + `, enableServiceLinks: true, containers: []}, status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}}`,
		},
		"addresses": {
			&corev1.Pod{}, `{spec: {containers: []}, status: {podIPs: [{ip: 10.0.0.1}, {ip: "::1"}]}}`,
			`{spec: {` + template + `, enableServiceLinks: true, containers: []}, status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: "::1"}]}}`,
		},
		"node with a range": {
			&corev1.Node{}, `spec: {podCIDR: 10.1.0.0/24}`, `spec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.1.0.0/24]}`,
		},
		"namespace": {
			&corev1.Namespace{}, `metadata: {name: a, labels: {b: c}}`,
			`{metadata: {name: a, labels: {b: c, kubernetes.io/metadata.name: a}}, spec: {}, status: {phase: Active}}`,
		},
		"namespace whose name is made up": {&corev1.Namespace{}, `metadata: {generateName: a}`, `{metadata: {generateName: a}, spec: {}, status: {phase: Active}}`},
		"node": {
			&corev1.Node{}, `status: {capacity: {cpu: 2, memory: 0.5}}`,
			`status: {capacity: {cpu: "2", memory: 500m}, allocatable: {cpu: "2", memory: 500m}}`,
		},
		"token request": {&authenticationv1.TokenRequest{}, `spec: {audiences: [a]}`, `spec: {audiences: [a], expirationSeconds: 3600}`},
		"admission plugin": {
			&pluginsv1.AdmissionPlugin{}, `spec: {module: a, phases: [Validate], rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}`,
			`spec: {module: a, phases: [Validate], failurePolicy: Fail, mode: Enforce, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: "*"}]}`,
		},
		"no defaults": {&corev1.ConfigMap{}, `data: {a: b}`, `data: {a: b}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.obj.DeepCopyObject()
			got := tc.obj
			for obj, text := range map[runtime.Object]string{got: tc.in, want: tc.want} {
				if _, err := api.Decode([]byte(text), api.MediaYAML, obj, api.Strict); err != nil {
					t.Fatal(err)
				}
			}
			for _, pass := range []string{"once", "twice"} {
				defaulting.Default(got)
				if diff := cmp.Diff(tree(t, want), tree(t, got)); diff != "" {
					t.Errorf("defaulted %s (-want +got)\n%s", pass, diff)
				}
			}
		})
	}
}

// tree returns an object as its JSON reads.
func tree(t *testing.T, obj runtime.Object) any {
	t.Helper()
	data, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPullPolicy(t *testing.T) {
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for image, want := range map[string]corev1.PullPolicy{
		"web":                        corev1.PullAlways,
		"web:latest":                 corev1.PullAlways,
		"web:1":                      corev1.PullIfNotPresent,
		"web" + digest:               corev1.PullIfNotPresent,
		"web:latest" + digest:        corev1.PullAlways,
		"example.com:5000/web":       corev1.PullAlways,
		"example.com:5000/a/web:1":   corev1.PullIfNotPresent,
		"localhost/web":              corev1.PullAlways,
		"Host/web":                   corev1.PullAlways,
		"example.com/Web":            corev1.PullIfNotPresent, // no image
		"":                           corev1.PullIfNotPresent,
		"web:":                       corev1.PullIfNotPresent,
		"example.com/team/web:dev-1": corev1.PullIfNotPresent,
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		defaulting.Default(pod)
		if got := pod.Spec.Containers[0].ImagePullPolicy; got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
	}
}

func BenchmarkDefaultPod(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "example.com/web:1"}}}}
		defaulting.Default(pod)
	}
}
