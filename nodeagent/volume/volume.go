// Package volume puts the volumes of a pod in place on its node: emptyDir,
// configMap, secret, downwardAPI, projected and hostPath.
//
// Each volume is a folder below the pod's, named for its kind and itself, so
// that an agent that starts anew finds it again. Files from the API are written
// so that a reader sees either all old ones or all new ones.
package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Sources is where contents come from. Its errors go into events; one that
// satisfies apierrors.IsNotFound is forgiven for an optional source.
type Sources interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Token returns a token of the pod's service account, and when to replace it.
	Token(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (token string, renew time.Time, err error)
	// Allocatable returns what the node has, for resources without a limit.
	Allocatable(name corev1.ResourceName) resource.Quantity
}

// ErrUnsupported is a kind of volume that there is no code for.
var ErrUnsupported = errors.New("volume type is not supported")

// A Set is the volumes of one pod.
type Set struct {
	// Dir is the pod's folder for volumes.
	Dir     string
	Sources Sources

	// tokens are those written, by volume and path.
	tokens map[string]token
}

type token struct {
	value string
	renew time.Time
}

// Paths returns where the volumes of a pod are on the node, by the volume's
// name. They need not be there yet.
func (s *Set) Paths(pod *corev1.Pod) map[string]string {
	m := map[string]string{}
	for i := range pod.Spec.Volumes {
		m[pod.Spec.Volumes[i].Name] = s.path(&pod.Spec.Volumes[i])
	}
	return m
}

func (s *Set) path(v *corev1.Volume) string {
	kind := "other"
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path
	case v.EmptyDir != nil:
		kind = "empty-dir"
	case v.ConfigMap != nil:
		kind = "configmap"
	case v.Secret != nil:
		kind = "secret"
	case v.DownwardAPI != nil:
		kind = "downward-api"
	case v.Projected != nil:
		kind = "projected"
	}
	return filepath.Join(s.Dir, "kubernetes.io~"+kind, v.Name)
}

// Prepare puts all volumes in place, and brings those that are up to date. The
// error names the first volume that could not be.
func (s *Set) Prepare(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if err := s.prepare(ctx, pod, v); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
		}
	}
	return nil
}

// Refresh brings the volumes with contents from the API up to date. It tries
// all and returns the first error.
func (s *Set) Refresh(ctx context.Context, pod *corev1.Pod) error {
	var first error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil {
			continue
		}
		if err := s.prepare(ctx, pod, v); err != nil && first == nil {
			first = fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
		}
	}
	return first
}

func (s *Set) prepare(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	dir := s.path(v)
	switch {
	case v.HostPath != nil:
		return hostPath(v.HostPath)
	case v.EmptyDir != nil:
		return emptyDir(dir, v.EmptyDir, fsGroup(pod))
	}
	files, err := s.files(ctx, pod, v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // containers run as any user
		return err
	}
	return writeFiles(dir, files, fsGroup(pod))
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// Remove removes the volumes with all that is in them; what a hostPath shows
// stays. The pod must not run any more.
func (s *Set) Remove() error {
	mounts, err := mountsBelow(s.Dir)
	if err != nil {
		return err
	}
	for _, mount := range slices.Backward(mounts) {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %q: %w", mount, err)
		}
	}
	return os.RemoveAll(s.Dir)
}

// mountsBelow returns the mount points in a folder, in the order of mounting.
func mountsBelow(dir string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 {
			if path := unescapeMount(f[4]); strings.HasPrefix(path, dir+"/") {
				list = append(list, path)
			}
		}
	}
	return list, nil
}

func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// emptyDir makes a folder for all, or a tmpfs.
func emptyDir(dir string, e *corev1.EmptyDirVolumeSource, group *int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // opened below
		return err
	}
	switch e.Medium {
	case corev1.StorageMediumDefault:
	case corev1.StorageMediumMemory:
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return fmt.Errorf("look at %q: %w", dir, err)
		}
		if fs.Type == unix.TMPFS_MAGIC && isMount(dir) {
			break
		}
		options := "mode=0777"
		if e.SizeLimit != nil && e.SizeLimit.Value() > 0 {
			options += fmt.Sprintf(",size=%d", e.SizeLimit.Value())
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("mount a tmpfs: %w", err)
		}
	default:
		return fmt.Errorf("emptyDir of medium %q: %w", e.Medium, ErrUnsupported)
	}
	mode := os.FileMode(0o777)
	if group != nil {
		if err := os.Chown(dir, -1, int(*group)); err != nil {
			return err
		}
		mode |= os.ModeSetgid
	}
	return os.Chmod(dir, mode)
}

// isMount tells whether a folder is on another file system than its parent.
func isMount(dir string) bool {
	var a, b unix.Stat_t
	return unix.Stat(dir, &a) == nil && unix.Stat(filepath.Dir(dir), &b) == nil && a.Dev != b.Dev
}

// hostPath checks that the path is what the pod expects, and makes it if the
// pod says so.
func hostPath(h *corev1.HostPathVolumeSource) error {
	want := corev1.HostPathUnset
	if h.Type != nil {
		want = *h.Type
	}
	info, err := os.Stat(h.Path)
	if errors.Is(err, os.ErrNotExist) {
		switch want {
		case corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate:
			return os.MkdirAll(h.Path, 0o755) //nolint:gosec // as documented
		case corev1.HostPathFileOrCreate:
			return os.WriteFile(h.Path, nil, 0o644) //nolint:gosec // as documented
		default:
		}
	} else if err != nil {
		return err
	}
	is := func(bits os.FileMode) bool { return info != nil && info.Mode().Type() == bits }
	ok, what := true, ""
	switch want {
	case corev1.HostPathUnset:
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		ok, what = is(os.ModeDir), "a directory"
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		ok, what = is(0), "a file"
	case corev1.HostPathSocket:
		ok, what = is(os.ModeSocket), "a socket file"
	case corev1.HostPathCharDev:
		ok, what = is(os.ModeDevice|os.ModeCharDevice), "a character device"
	case corev1.HostPathBlockDev:
		ok, what = is(os.ModeDevice), "a block device"
	default:
		return fmt.Errorf("%s is an invalid volume type", want)
	}
	if !ok {
		return fmt.Errorf("hostPath type check failed: %s is not %s", h.Path, what)
	}
	return nil
}
