package volume

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fixed are sources that a test fills.
type fixed struct {
	maps    map[string]*corev1.ConfigMap
	secrets map[string]*corev1.Secret
	tokens  int
	renew   time.Duration
}

func (f *fixed) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if c := f.maps[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (f *fixed) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if s := f.secrets[name]; s != nil {
		return s, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (f *fixed) Token(_ context.Context, _ *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, time.Time, error) {
	f.tokens++
	return "token for " + p.Audience, time.Now().Add(f.renew), nil
}

func (f *fixed) Allocatable(corev1.ResourceName) resource.Quantity { return resource.MustParse("4") }

func podWith(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", Labels: map[string]string{"b": "2", "a": `1"`}, Annotations: map[string]string{"k": "v"}},
		Spec:       corev1.PodSpec{Volumes: volumes, Containers: []corev1.Container{{Name: "c"}}, NodeName: "n"},
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPrepareErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	yes := true
	hostPath := func(path string, typ corev1.HostPathType) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &typ}}
	}
	configMap := func(name string, optional *bool, items ...corev1.KeyToPath) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional, Items: items}}
	}
	tests := []struct {
		name   string
		source corev1.VolumeSource
		want   string // "" is success
	}{
		{"missing map", configMap("none", nil), "not found"},
		{"missing map, optional", configMap("none", &yes), ""},
		{"missing key", configMap("m", nil, corev1.KeyToPath{Key: "z", Path: "z"}), "references non-existent configmap key: z"},
		{"missing key, optional", configMap("m", &yes, corev1.KeyToPath{Key: "z", Path: "z"}), ""},
		{"path that leads out", configMap("m", nil, corev1.KeyToPath{Key: "k", Path: "../../x"}), "leads out of the volume"},
		{"absolute path", configMap("m", nil, corev1.KeyToPath{Key: "k", Path: "/etc/x"}), "leads out of the volume"},
		{"missing secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none"}}, "not found"},
		{"folder is a file", hostPath(file, corev1.HostPathDirectory), "is not a directory"},
		{"no such folder", hostPath(file+"x", corev1.HostPathDirectory), "is not a directory"},
		{"no such file", hostPath(file+"x", corev1.HostPathFile), "is not a file"},
		{"no such socket", hostPath(file, corev1.HostPathSocket), "is not a socket file"},
		{"a device", hostPath("/dev/null", corev1.HostPathCharDev), ""},
		{"no block device", hostPath("/dev/null", corev1.HostPathBlockDev), "is not a block device"},
		{"new folder", hostPath(file+".d/a", corev1.HostPathDirectoryOrCreate), ""},
		{"new file", hostPath(file+".new", corev1.HostPathFileOrCreate), ""},
		{"anything", hostPath(file, corev1.HostPathUnset), ""},
		{"unknown kind", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}, ErrUnsupported.Error()},
		{"unknown medium", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Tape"}}, ErrUnsupported.Error()},
		{"unknown field", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "x", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nothing"}},
		}}}, "unsupported fieldPath: spec.nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &Set{Dir: t.TempDir(), Sources: &fixed{maps: map[string]*corev1.ConfigMap{"m": {Data: map[string]string{"k": "v"}}}}}
			err := s.Prepare(t.Context(), podWith(corev1.Volume{Name: "v", VolumeSource: tt.source}))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), `MountVolume.SetUp failed for volume "v" : `) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	t.Run("socket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := &Set{Dir: t.TempDir(), Sources: &fixed{}}
		if err := s.Prepare(t.Context(), podWith(corev1.Volume{Name: "v", VolumeSource: hostPath(path, corev1.HostPathSocket)})); err != nil {
			t.Error(err)
		}
	})
}

// TestReplace_hammer proves that a reader never sees a mix of two versions, nor
// nothing.
func TestReplace_hammer(t *testing.T) {
	dir := t.TempDir()
	version := func(i int) map[string]file {
		text := strings.Repeat(string(rune('a'+i%26)), 100)
		return map[string]file{"one": {[]byte(text), 0o644}, "deep/two": {[]byte(text), 0o644}}
	}
	if err := writeFiles(dir, version(0), nil); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// what ..data leads to is opened once; within, all is of one version
				at, err := os.Readlink(filepath.Join(dir, dataLink))
				if err != nil {
					t.Error(err)
					return
				}
				one, errOne := os.ReadFile(filepath.Join(dir, at, "one"))
				two, errTwo := os.ReadFile(filepath.Join(dir, at, "deep/two"))
				if errors.Is(errOne, os.ErrNotExist) || errors.Is(errTwo, os.ErrNotExist) {
					continue // replaced meanwhile: the link leads on
				}
				if string(one) != string(two) || len(one) != 100 {
					t.Errorf("%q and %q", one, two)
					return
				}
			}
		})
	}
	for i := range 300 {
		if err := writeFiles(dir, version(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
	if got := content(t, filepath.Join(dir, "deep/two")); got[0] != 'a'+299%26 {
		t.Errorf("the last version is %q", got[:1])
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 4 { // one, deep, ..data and what it leads to
		t.Errorf("%v, %v", list, err)
	}
}

func TestTokens(t *testing.T) {
	f := &fixed{renew: time.Hour}
	s := &Set{Dir: t.TempDir(), Sources: f}
	pod := podWith(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "me"}},
	}}}})
	for range 3 {
		if err := s.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if f.tokens != 1 {
		t.Errorf("%d tokens were asked for", f.tokens)
	}
	path := filepath.Join(s.Paths(pod)["v"], "token")
	if got := content(t, path); got != "token for me" {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	f.renew = -time.Hour
	s.tokens = nil
	for range 2 {
		if err := s.Refresh(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if f.tokens != 3 {
		t.Errorf("a token that is due was not renewed: %d", f.tokens)
	}
}

func TestRemove(t *testing.T) {
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Set{Dir: filepath.Join(t.TempDir(), "volumes"), Sources: &fixed{}}
	pod := podWith(
		corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: outside}}},
		corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	)
	if err := s.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.Paths(pod)["empty"], "link")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the volumes are still there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a file of the host is gone: %v", err)
	}
}

func TestField(t *testing.T) {
	pod := podWith()
	pod.Status.HostIP, pod.Status.PodIPs = "1.2.3.4", []corev1.PodIP{{IP: "a"}, {IP: "b"}}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "default", "metadata.uid": "u", "metadata.labels['b']": "2", "metadata.labels['x']": "",
		"metadata.annotations['k']": "v", "metadata.labels": "a=\"1\\\"\"\nb=\"2\"", "spec.nodeName": "n", "status.hostIP": "1.2.3.4", "status.podIPs": "a,b",
	} {
		if got, err := Field(pod, path); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", "spec", "spec.x['y']", "metadata.labels["} {
		if got, err := Field(pod, path); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestResource(t *testing.T) {
	pod := podWith()
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("10Mi")}
	for _, tt := range []struct{ name, divisor, want string }{
		{"requests.cpu", "0", "2"}, {"requests.cpu", "1m", "1500"}, {"requests.memory", "1Mi", "10"}, {"requests.memory", "3Mi", "4"}, {"limits.cpu", "1", "4"},
	} {
		ref := &corev1.ResourceFieldSelector{Resource: tt.name, Divisor: resource.MustParse(tt.divisor)}
		if got, err := Resource(pod, ref, "c", (&fixed{}).Allocatable); got != tt.want || err != nil {
			t.Errorf("%s in %s: %q, %v, want %q", tt.name, tt.divisor, got, err, tt.want)
		}
	}
}
