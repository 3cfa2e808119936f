package nodeagent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/proa-project/proa/nodeagent/cri"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for in, want := range map[string]string{
		"":                "",
		"plain":           "plain",
		"$(A)":            "1",
		"x$(A)y$(A)z":     "x1y1z",
		"$(B)":            "$(A)", // a value is not looked into again
		"$$(A)":           "$(A)",
		"$$$(A)":          "$1",
		"$(NONE)":         "$(NONE)",
		"$(EMPTY)|":       "|",
		"$(A":             "$(A",
		"cost: $5, $ and": "cost: $5, $ and",
		"$":               "$",
		"$$":              "$",
	} {
		if got := expand(in, lookup); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("a$(A)$$(B)$(C")
	f.Fuzz(func(t *testing.T, s string) {
		got := expand(s, func(string) (string, bool) { return "", false })
		if !strings.Contains(s, "$$") && got != s {
			t.Errorf("nothing is known, but %q became %q", s, got)
		}
	})
}

func TestCgroupMounts(t *testing.T) {
	tests := []struct {
		name, mounts, unified string
		v1                    map[string]string
	}{
		{"version 2", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "/sys/fs/cgroup", map[string]string{}},
		{
			"version 1", "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n",
			"",
			map[string]string{"cpu": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory", "pids": "/sys/fs/cgroup/pids"},
		},
		{
			"both, memory in 1", "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
			"",
			map[string]string{"memory": "/sys/fs/cgroup/memory"},
		},
		{
			"both, memory in 2", "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n",
			"/sys/fs/cgroup/unified",
			map[string]string{},
		},
		{"neither", "proc /proc proc rw 0 0\n", "", map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &cgroups{v1: map[string]string{}}
			c.find(tt.mounts)
			if c.unified != tt.unified || cmp.Diff(tt.v1, c.v1) != "" {
				t.Errorf("unified %q, v1 %v", c.unified, c.v1)
			}
		})
	}
}

func limited(cpu, memory string) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
	if cpu != "" {
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return c
}

func TestPodLimits(t *testing.T) {
	tests := []struct {
		name             string
		init, containers []corev1.Container
		want             limits
	}{
		{"none", nil, []corev1.Container{{}}, limits{shares: 2}},
		{"sum", nil, []corev1.Container{limited("500m", "1Mi"), limited("1", "2Mi")}, limits{memory: 3 << 20, quota: 150_000, shares: 1536}},
		{"one without", nil, []corev1.Container{limited("500m", "1Mi"), limited("", "2Mi")}, limits{memory: 3 << 20, shares: 512}},
		{"init needs more", []corev1.Container{limited("2", "9Mi")}, []corev1.Container{limited("1", "2Mi")}, limits{memory: 9 << 20, quota: 200_000, shares: 1024}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: tt.init, Containers: tt.containers}}
			if got := podLimits(pod); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestCgroupVersion2 uses a folder for a file system of version 2: this
// machine may not have one.
func TestCgroupVersion2(t *testing.T) {
	top := t.TempDir()
	c := &cgroups{parent: "/kubepods", unified: top, log: zerolog.Nop()}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{limited("500m", "1Mi")}}}
	pod.UID = "u"
	if got := c.path(pod); got != "/kubepods/podu" {
		t.Errorf("path of a guaranteed pod: %s", got)
	}
	c.add(pod)
	for name, want := range map[string]string{
		"kubepods/podu/memory.max": "1048576", "kubepods/podu/cpu.max": "50000 100000", "kubepods/podu/cpu.weight": "20",
		"kubepods/cgroup.subtree_control": "+io",
	} {
		if b, err := os.ReadFile(filepath.Join(top, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
}

func TestProbeAddress(t *testing.T) {
	at := target{ip: "10.0.0.1", container: &corev1.Container{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}
	for _, tt := range []struct {
		host string
		port intstr.IntOrString
		want string
	}{
		{"", intstr.FromInt32(80), "10.0.0.1:80"},
		{"", intstr.FromString("http"), "10.0.0.1:8080"},
		{"h", intstr.FromString("81"), "h:81"},
		{"", intstr.FromString("none"), ""},
		{"", intstr.FromInt32(0), ""},
		{"", intstr.FromInt32(70000), ""},
	} {
		got, err := at.address(tt.host, tt.port)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q %v: %q, %v, want %q", tt.host, tt.port, got, err, tt.want)
		}
	}
}

func TestSubPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if got, err := subPath(dir, "a/b"); err != nil || !strings.HasSuffix(got, "/a/b") {
		t.Errorf("a new folder: %q, %v", got, err)
	}
	for _, bad := range []string{"out", "out/passwd", "../x", "/etc"} {
		if got, err := subPath(dir, bad); err == nil {
			t.Errorf("%q leads out of the volume, to %q", bad, got)
		}
	}
}

func TestCredentials(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{
		"https://reg.test/v1/":{"username":"u","password":"p"},"reg.test/team":{"auth":"dTpw"}}}`)}}
	for image, want := range map[string]*cri.Auth{
		"reg.test/web:1":    {Username: "u", Password: "p", ServerAddress: "https://reg.test/v1/"},
		"reg.test/team/x":   {Auth: "dTpw", ServerAddress: "reg.test/team"},
		"other.test/x":      nil,
		"reg.test.evil/web": nil,
	} {
		if d := cmp.Diff(want, credentials(s, image)); d != "" {
			t.Errorf("%s: -want +got:\n%s", image, d)
		}
	}
}

func TestMachine(t *testing.T) {
	m := readMachine(t.TempDir())
	if m.cpus < 1 || m.memory < 1<<20 || m.memoryFree < 1 || m.disk < 1<<20 || m.kernel == "" || m.bootID == "" {
		t.Errorf("%+v", m)
	}
}

func TestOOMScoreAdj(t *testing.T) {
	capacity := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Gi")}
	burstable := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}}
	for want, c := range map[int64]corev1.Container{-997: limited("1", "1Gi"), 1000: {}, 900: burstable} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
		if got := oomScoreAdj(pod, &c, capacity); got != want {
			t.Errorf("%+v: %d, want %d", c.Resources, got, want)
		}
	}
}

func TestWriteNetwork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "net.d")
	if err := writeNetwork("", "10.244.1.0/24"); err != nil {
		t.Errorf("not asked for: %v", err)
	}
	if err := writeNetwork(dir, "10.244.1.0"); err == nil {
		t.Error("no prefix was taken for one")
	}
	for range 2 {
		if err := writeNetwork(dir, "10.244.1.7/24"); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, networkFile))
	if err != nil || !strings.Contains(string(b), `"subnet": "10.244.1.0/24"`) {
		t.Errorf("%s, %v", b, err)
	}
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "10-mine.conflist"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeNetwork(own, "10.244.1.0/24"); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(own); err != nil || len(list) != 1 {
		t.Errorf("a network was added to one that is there: %v, %v", list, err)
	}
}
