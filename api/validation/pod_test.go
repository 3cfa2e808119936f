package validation_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/api/validation"
)

// podWith returns a pod in YAML whose spec has one container and the fields.
func podWith(fields string) string {
	return "{metadata: {name: a, namespace: b}, spec: {containers: [{name: c, image: i}], " + fields + "}}"
}

// containerWith returns a pod in YAML with one container that has the fields.
func containerWith(fields string) string {
	return "{metadata: {name: a, namespace: b}, spec: {volumes: [{name: v}, {name: w, configMap: {name: x}}], containers: [{name: c, image: i, " + fields + "}]}}"
}

const dnsLabel = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"

func TestCreatePod(t *testing.T) {
	run(t, func() *corev1.Pod { return &corev1.Pod{} }, map[string]row{
		"plain":                {podWith(""), nil},
		"no containers":        {`{metadata: {name: a, namespace: b}, spec: {containers: []}}`, []string{`spec.containers: Required value`}},
		"no name, no image":    {`{metadata: {name: a, namespace: b}, spec: {containers: [{}]}}`, []string{`spec.containers[0].name: Required value`, `spec.containers[0].image: Required value`}},
		"bad container name":   {podWith(`initContainers: [{name: A, image: i}]`), []string{`spec.initContainers[0].name: Invalid value: "A": ` + dnsLabel}},
		"same container name":  {`{metadata: {name: a, namespace: b}, spec: {containers: [{name: c, image: i}, {name: c, image: i}]}}`, []string{`spec.containers[1].name: Duplicate value: "c"`}},
		"same name as an init": {podWith(`initContainers: [{name: c, image: i}]`), []string{`spec.initContainers[0].name: Duplicate value: "c"`}},
		"image with a space":   {`{metadata: {name: a, namespace: b}, spec: {containers: [{name: c, image: " i"}]}}`, []string{`spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace`}},

		"ports": {containerWith(`ports: [{containerPort: 0}, {containerPort: 70000}, {containerPort: 1, hostPort: -1}, {containerPort: 1, protocol: tcp}, {containerPort: 1, name: A_}, {containerPort: 1, name: x}, {containerPort: 2, name: x}]`), []string{
			`spec.containers[0].ports[0].containerPort: Required value`,
			`spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive`,
			`spec.containers[0].ports[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive`,
			`spec.containers[0].ports[3].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"`,
			`spec.containers[0].ports[4].name: Invalid value: "A_": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
			`spec.containers[0].ports[4].name: Invalid value: "A_": must contain at least one letter (a-z)`,
			`spec.containers[0].ports[6].name: Duplicate value: "x"`,
		}},
		"same host port": {containerWith(`ports: [{containerPort: 1, hostPort: 80}, {containerPort: 2, hostPort: 80}]`), []string{
			`spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"`,
		}},
		"ports of the host's network": {`{metadata: {name: a, namespace: b}, spec: {hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 1, hostPort: 2}]}]}}`, []string{
			"spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
		}},

		"environment": {containerWith(`env: [{name: ""}, {name: "a=b"}, {name: A, valueFrom: {}}, {name: B, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}},
		  {name: D, valueFrom: {fieldRef: {fieldPath: status.phase}}}, {name: E, valueFrom: {fieldRef: {fieldPath: spec.foo}}}, {name: F, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a']"}}}, {name: G, valueFrom: {configMapKeyRef: {name: "", key: "a/b"}}},
		  {name: H, valueFrom: {resourceFieldRef: {resource: limits.gpu}}}, {name: I, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 2}}}]`), []string{
			`spec.containers[0].env[0].name: Required value`,
			`spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='`,
			"spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
			"spec.containers[0].env[3].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
			`spec.containers[0].env[4].valueFrom: Invalid value: "": may not have more than one field specified at a time`,
			`spec.containers[0].env[5].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`,
			`spec.containers[0].env[6].valueFrom.fieldRef.fieldPath: Invalid value: "spec.foo": error converting fieldPath: field label not supported: spec.foo`,
			`spec.containers[0].env[8].valueFrom.configMapKeyRef.name: Invalid value: "": ` + dnsSubdomain,
			`spec.containers[0].env[8].valueFrom.configMapKeyRef.key: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
			`spec.containers[0].env[9].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"`,
			`spec.containers[0].env[10].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource`,
		}},
		"environment from elsewhere": {containerWith(`envFrom: [{}, {configMapRef: {name: a}, secretRef: {name: b}}, {secretRef: {name: ""}}]`), []string{
			"spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
			`spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time`,
			`spec.containers[0].envFrom[2].secretRef.name: Required value`,
		}},

		"resources": {containerWith(`resources: {limits: {cpu: 1, memory: -1, foo: 1, nvidia.com/gpu: 1.5}, requests: {cpu: 2, nvidia.com/gpu: 1, example.com/b: 1}}`), []string{
			`spec.containers[0].resources.limits[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`,
			`spec.containers[0].resources.limits[foo]: Invalid value: "foo": must be a standard resource for containers`,
			`spec.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0`,
			`spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer`,
			`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
			`spec.containers[0].resources.requests[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`,
			`spec.containers[0].resources.requests[foo]: Invalid value: "foo": must be a standard resource for containers`,
			`spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
			`spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 1500m`,
			`spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`,
		}},
		"huge pages in pieces": {containerWith(`resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}, requests: {hugepages-2Mi: 3Mi}}`), []string{
			`spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
			`spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
		}},
		"containers beyond their pod": {`{metadata: {name: a, namespace: b}, spec: {resources: {limits: {cpu: 1}, requests: {cpu: 1}}, containers: [{name: c, image: i, resources: {limits: {cpu: 3}, requests: {cpu: 2}}}]}}`, []string{
			`spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2`,
			`spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 1`,
		}},
		"huge pages alone":      {containerWith(`resources: {limits: {hugepages-2Mi: 2Mi}}`), []string{`spec.containers[0].resources: Forbidden: HugePages require cpu or memory`}},
		"resources of the pod":  {podWith(`resources: {limits: {cpu: 1, nvidia.com/gpu: 1}, requests: {cpu: 2}}`), []string{`spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": supported values: "cpu", "hugepages-", "memory"`, `spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`}},
		"claims nobody made":    {containerWith(`resources: {claims: [{name: gpu}]}`), []string{`spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims which is empty`}},
		"resize policy":         {containerWith(`resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: Maybe}]`), []string{`spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"`, `spec.containers[0].resizePolicy: Unsupported value: "Maybe": supported values: "NotRequired", "RestartContainer"`}},
		"pull policy":           {containerWith(`imagePullPolicy: Sometimes`), []string{`spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"`}},
		"termination message":   {containerWith(`terminationMessagePolicy: Shout`), []string{`spec.containers[0].terminationMessagePolicy: Unsupported value: "Shout": supported values: "File", "FallbackToLogsOnError"`}},
		"restart of a sidecar":  {podWith(`initContainers: [{name: x, image: i, restartPolicy: Always, livenessProbe: {exec: {command: [a]}}}]`), nil},
		"restart of containers": {containerWith(`restartPolicy: Often, restartPolicyRules: [{action: Restart}]`), []string{`spec.containers[0].restartPolicy: Unsupported value: "Often": supported values: "Always", "Never", "OnFailure"`, `spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified`}},

		"mounts": {containerWith(`volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}, {name: x, mountPath: /b}, {name: v, mountPath: ""}, {name: w, mountPath: /c, subPath: /x}, {name: w, mountPath: /d, subPathExpr: ../x}, {name: w, mountPath: /e, mountPropagation: Bidirectional}, {name: w, mountPath: /f, recursiveReadOnly: Enabled}]`), []string{
			`spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique`,
			`spec.containers[0].volumeMounts[2].name: Not found: "x"`,
			`spec.containers[0].volumeMounts[3].mountPath: Required value`,
			`spec.containers[0].volumeMounts.subPath: Invalid value: "/x": must be a relative path`,
			`spec.containers[0].volumeMounts.subPathExpr: Invalid value: "../x": must not contain '..'`,
			`spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers`,
			`spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true`,
		}},
		"devices": {containerWith(`volumeDevices: [{name: v, devicePath: /a}, {name: x, devicePath: ""}]`), []string{
			`spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode`,
			`spec.containers[0].volumeDevices[1].name: Not found: "x"`,
			`spec.containers[0].volumeDevices[1].devicePath: Required value`,
		}},
		"volumes": {podWith(`volumes: [{name: a}, {name: a}, {name: ""}, {name: B}, {name: c, emptyDir: {}, hostPath: {path: /x}}, {name: d, secret: {}}, {name: e, hostPath: {path: /../x, type: Odd}}, {name: f, configMap: {name: x, defaultMode: 512, items: [{key: "", path: /abs}]}}]`), []string{
			`spec.volumes[1].name: Duplicate value: "a"`,
			`spec.volumes[2].name: Required value`,
			`spec.volumes[3].name: Invalid value: "B": ` + dnsLabel,
			`spec.volumes[4].hostPath: Forbidden: may not specify more than 1 volume type`,
			`spec.volumes[5].secret.secretName: Required value`,
			`spec.volumes[6].hostPath.path: Invalid value: "/../x": must not contain '..'`,
			`spec.volumes[6].hostPath.type: Unsupported value: "Odd": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"`,
			`spec.volumes[7].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive`,
			`spec.volumes[7].configMap.items[0].key: Required value`,
			`spec.volumes[7].configMap.items[0].path: Invalid value: "/abs": must be a relative path`,
		}},
		"projected volumes": {podWith(`serviceAccountName: sa, volumes: [{name: a, projected: {sources: [{configMap: {name: x, items: [{key: a, path: p}]}}, {secret: {name: yy, items: [{key: a, path: p}]}}, {serviceAccountToken: {path: "", expirationSeconds: 5}}, {downwardAPI: {items: [{path: ..x, fieldRef: {fieldPath: spec.nodeName}}, {path: yy}]}}, {configMap: {name: z}, secret: {name: z}}]}}]`), []string{
			`spec.volumes[0].projected: Invalid value: "yy": conflicting duplicate paths`,
			`spec.volumes[0].projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes`,
			`spec.volumes[0].projected.path: Required value`,
			`spec.volumes[0].projected.sources[3].downwardAPI.path: Invalid value: "..x": must not start with '..'`,
			`spec.volumes[0].projected.sources[3].downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"`,
			`spec.volumes[0].projected.sources[3].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required`,
			`spec.volumes[0].projected.sources[4]: Forbidden: may not specify more than 1 volume type per source`,
		}},
		"token without an account": {podWith(`volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`), []string{`spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set`}},

		"restart policy": {podWith(`restartPolicy: Maybe`), []string{`spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"`}},
		"DNS policy":     {podWith(`dnsPolicy: Mine`), []string{`spec.dnsPolicy: Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`}},
		"DNS of one's own": {podWith(`dnsPolicy: None, dnsConfig: {nameservers: [1.2.3.4, x, 1.1.1.1, 2.2.2.2], searches: ["a_b.c.", "A"], options: [{name: ""}]}`), []string{
			`spec.dnsConfig.nameservers: Invalid value: ["1.2.3.4","x","1.1.1.1","2.2.2.2"]: must not have more than 3 nameservers`,
			`spec.dnsConfig.nameservers[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			`spec.dnsConfig.searches[1]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')`,
			`spec.dnsConfig.options[0]: Required value: must not be empty`,
		}},
		"no DNS": {podWith(`dnsPolicy: None`), []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},

		"probes": {containerWith(`livenessProbe: {successThreshold: 2, httpGet: {port: 0, scheme: FTP}}, readinessProbe: {terminationGracePeriodSeconds: 1, tcpSocket: {port: x_}, exec: {command: []}}, startupProbe: {periodSeconds: -1}`), []string{
			`spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive`,
			`spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"`,
			`spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`,
			`spec.containers[0].readinessProbe.exec.command: Required value`,
			`spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type`,
			`spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes`,
			`spec.containers[0].startupProbe: Required value: must specify a handler type`,
			`spec.containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0`,
		}},
		"hooks": {containerWith(`lifecycle: {preStop: {sleep: {seconds: 31}}, postStart: {}}`), []string{
			`spec.containers[0].lifecycle.postStart: Required value: must specify a handler type`,
			`spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)`,
		}},
		"probes before the start": {podWith(`initContainers: [{name: x, image: i, readinessProbe: {exec: {command: [a]}}, lifecycle: {}}]`), []string{
			`spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always`,
			`spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`,
		}},

		"node selector": {podWith(`nodeSelector: {"a b": c}`), []string{`spec.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		"node affinity": {podWith(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}, {key: b, operator: Exists, values: [x]}, {key: c, operator: Gt, values: ["1", "2"]}, {key: d, operator: Like}], matchFields: [{key: a, operator: In, values: [x]}]}]},
		  preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}`), []string{
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
			`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[3].operator: Invalid value: "Like": not a valid selector operator`,
			`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: "a": not a valid field selector key`,
			`spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100`,
		}},
		"pod affinity": {podWith(`affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "", labelSelector: {matchExpressions: [{key: a, operator: Odd}]}}]}}`), []string{
			`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator`,
			`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty`,
			`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must be non-empty`,
			`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": ` + qualified,
		}},
		"tolerations": {podWith(`tolerations: [{}, {key: a, operator: Exists, value: b}, {key: a, tolerationSeconds: 1}, {key: a, operator: Odd}, {key: a, effect: Odd}, {operator: Exists}]`), []string{
			"spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
			"spec.tolerations[1].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
			"spec.tolerations[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
			`spec.tolerations[3].operator: Unsupported value: "Odd": supported values: "Equal", "Exists"`,
			`spec.tolerations[4].effect: Unsupported value: "Odd": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		}},
		"spreading": {podWith(`topologySpreadConstraints: [{maxSkew: 0, topologyKey: "", whenUnsatisfiable: Odd}, {maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}, {maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]`), []string{
			`spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero`,
			`spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty`,
			`spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Odd": supported values: "DoNotSchedule", "ScheduleAnyway"`,
			`spec.topologySpreadConstraints[1].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway`,
			`spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, ScheduleAnyway}"`,
		}},
		"gates": {podWith(`nodeName: n1, schedulingGates: [{name: a}, {name: a}, {name: "a/"}]`), []string{
			`spec.schedulingGates[1]: Duplicate value: "a"`,
			`spec.schedulingGates[2]: Invalid value: "a/": name part must be non-empty`,
			`spec.schedulingGates[2]: Invalid value: "a/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared`,
		}},
		"security of the pod": {podWith(`hostPID: true, shareProcessNamespace: true, securityContext: {runAsUser: -1, fsGroup: -2, sysctls: [{name: "a b", value: x}], seccompProfile: {type: Localhost}, fsGroupChangePolicy: Odd}`), []string{
			`spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled`,
			`spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive`,
			`spec.securityContext.fsGroup: Invalid value: -2: must be between 0 and 2147483647, inclusive`,
			`spec.securityContext.fsGroupChangePolicy: Unsupported value: "Odd": supported values: "Always", "OnRootMismatch"`,
			`spec.securityContext.sysctls[0].name: Invalid value: "a b": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`,
			`spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost`,
		}},
		"security of a container": {containerWith(`securityContext: {privileged: true, allowPrivilegeEscalation: false, procMount: Odd, appArmorProfile: {type: RuntimeDefault, localhostProfile: x}}`), []string{
			`spec.containers[0].securityContext.procMount: Unsupported value: "Odd": supported values: "Default", "Unmasked"`,
			`spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost`,
			"spec.containers[0].securityContext: Invalid value: {\"privileged\":true,\"allowPrivilegeEscalation\":false,\"procMount\":\"Odd\",\"appArmorProfile\":{\"type\":\"RuntimeDefault\",\"localhostProfile\":\"x\"}}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
		}},
		"odds and ends": {podWith(`activeDeadlineSeconds: 0, hostname: A, preemptionPolicy: Odd, os: {name: plan9}, imagePullSecrets: [{}], hostAliases: [{ip: x}], readinessGates: [{conditionType: "a b"}], ephemeralContainers: [{name: e, image: i}]`), []string{
			`spec.ephemeralContainers: Forbidden: cannot be set on create`,
			`spec.readinessGates[0].conditionType: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.hostname: Invalid value: "A": ` + dnsLabel,
			`spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive`,
			`spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			`spec.preemptionPolicy: Unsupported value: "Odd": supported values: "PreemptLowerPriority", "Never"`,
			`spec.os.name: Unsupported value: "plan9": supported values: "linux", "windows"`,
		}},
	})
}

func TestUpdatePod(t *testing.T) {
	for name, tc := range map[string]struct {
		old, now string
		want     []string // prefixes
	}{
		"nothing":               {podWith(`nodeName: n1`), podWith(`nodeName: n1`), nil},
		"image":                 {podWith(``), `{metadata: {name: a, namespace: b}, spec: {containers: [{name: c, image: other, imagePullPolicy: Always}]}}`, nil},
		"deadline":              {podWith(`activeDeadlineSeconds: 5`), podWith(`activeDeadlineSeconds: 4`), nil},
		"deadline, later":       {podWith(`activeDeadlineSeconds: 5`), podWith(`activeDeadlineSeconds: 6`), []string{`spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value`}},
		"deadline, none":        {podWith(`activeDeadlineSeconds: 5`), podWith(``), []string{`spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value`}},
		"more tolerations":      {podWith(`tolerations: [{key: a, operator: Exists}]`), podWith(`tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]`), nil},
		"fewer tolerations":     {podWith(`tolerations: [{key: a, operator: Exists}]`), podWith(``), []string{`spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds`}},
		"fewer gates":           {podWith(`schedulingGates: [{name: a}, {name: b}]`), podWith(`schedulingGates: [{name: b}]`), nil},
		"more gates":            {podWith(`schedulingGates: [{name: a}]`), podWith(`schedulingGates: [{name: a}, {name: b}]`), []string{`spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'`}},
		"selector behind gates": {podWith(`schedulingGates: [{name: a}], nodeSelector: {a: b}`), podWith(`schedulingGates: [{name: a}], nodeSelector: {a: b, c: d}`), nil},
		"other selector behind gates": {
			podWith(`schedulingGates: [{name: a}], nodeSelector: {a: b}`), podWith(`schedulingGates: [{name: a}], nodeSelector: {a: c}`),
			[]string{`spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)`},
		},
		"container":     {podWith(``), podWith(`initContainers: [{name: x, image: i}]`), []string{`spec.initContainers: Forbidden: pod updates may not add or remove containers`}},
		"grace of old":  {podWith(`terminationGracePeriodSeconds: -1`), podWith(`terminationGracePeriodSeconds: 1`), nil},
		"anything else": {podWith(`nodeName: n1`), podWith(`nodeName: m1`), []string{"spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"}},
		"other name":    {podWith(``), strings.Replace(podWith(``), "name: a", "name: b", 1), []string{`metadata.name: Invalid value: "b": field is immutable`}},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := &corev1.Pod{}, &corev1.Pod{}
			load(t, tc.old, old)
			load(t, tc.now, now)
			got := texts(validation.Update(now, old))
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("got  %s\nwant %s", got[i], tc.want[i])
				}
			}
		})
	}
}

func TestPodStatus(t *testing.T) {
	const done, running = `status: {containerStatuses: [{name: c, ready: false, restartCount: 0, image: "", imageID: "", state: {terminated: {exitCode: 0}}}]}`,
		`status: {containerStatuses: [{name: c, ready: false, restartCount: 0, image: "", imageID: "", state: {running: {}}}]}`
	pod := func(policy, status string) string {
		return "{metadata: {name: a, namespace: b}, spec: {restartPolicy: " + policy + ", containers: [{name: c, image: i}]}, " + status + "}"
	}
	for name, tc := range map[string]struct {
		old, now string
		want     []string
	}{
		"starts":                    {pod("Never", running), pod("Never", done), nil},
		"starts again":              {pod("Always", done), pod("Always", running), nil},
		"starts again, must not":    {pod("Never", done), pod("Never", running), []string{`status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state`}},
		"ended well":                {pod("OnFailure", done), pod("OnFailure", running), []string{`status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state`}},
		"ended badly":               {pod("OnFailure", strings.Replace(done, "exitCode: 0", "exitCode: 1", 1)), pod("OnFailure", running), nil},
		"class":                     {pod("Always", "status: {qosClass: Burstable}"), pod("Always", `status: {qosClass: BestEffort}`), []string{`status.qosClass: Invalid value: "BestEffort": field is immutable`}},
		"two addresses of a family": {pod("Always", ""), pod("Always", `status: {podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.2}]}`), []string{`status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: may specify no more than one IP for each IP family`}},
		"host's address":            {pod("Always", ""), pod("Always", `status: {hostIPs: [{ip: 10.0.0.1}]}`), []string{"status.hostIPs[0].ip: Invalid value: \"10.0.0.1\": must be equal to `hostIP`"}},
		"bad address":               {pod("Always", ""), pod("Always", `status: {podIPs: [{ip: x}]}`), []string{`status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
		"condition without a name": {pod("Always", ""), pod("Always", `status: {conditions: [{type: "", status: "True"}]}`), []string{
			`metadata.conditions[0].Type: Invalid value: "": name part must be non-empty`,
			`metadata.conditions[0].Type: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := &corev1.Pod{}, &corev1.Pod{}
			load(t, tc.old, old)
			load(t, tc.now, now)
			compare(t, tc.want, texts(validation.UpdateStatus(now, old)))
		})
	}
}
