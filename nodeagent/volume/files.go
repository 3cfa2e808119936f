package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A file is one of a volume's files.
type file struct {
	data []byte
	mode os.FileMode
}

const defaultMode = 0o644

func modeOf(own, all *int32) os.FileMode {
	switch {
	case own != nil:
		return os.FileMode(*own) & 0o777 //nolint:gosec // validated
	case all != nil:
		return os.FileMode(*all) & 0o777 //nolint:gosec // validated
	default:
		return defaultMode
	}
}

// files returns what a volume with contents from the API is to hold, by path.
func (s *Set) files(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (map[string]file, error) {
	out := map[string]file{}
	var err error
	switch {
	case v.ConfigMap != nil:
		c := v.ConfigMap
		err = s.configMap(ctx, out, pod.Namespace, c.Name, c.Items, c.DefaultMode, c.Optional)
	case v.Secret != nil:
		c := v.Secret
		err = s.secret(ctx, out, pod.Namespace, c.SecretName, c.Items, c.DefaultMode, c.Optional)
	case v.DownwardAPI != nil:
		err = s.downward(out, pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		err = s.projected(ctx, out, pod, v)
	default:
		err = ErrUnsupported
	}
	return out, err
}

func (s *Set) projected(ctx context.Context, out map[string]file, pod *corev1.Pod, v *corev1.Volume) error {
	mode := v.Projected.DefaultMode
	for i := range v.Projected.Sources {
		var err error
		switch p := &v.Projected.Sources[i]; {
		case p.ConfigMap != nil:
			err = s.configMap(ctx, out, pod.Namespace, p.ConfigMap.Name, p.ConfigMap.Items, mode, p.ConfigMap.Optional)
		case p.Secret != nil:
			err = s.secret(ctx, out, pod.Namespace, p.Secret.Name, p.Secret.Items, mode, p.Secret.Optional)
		case p.DownwardAPI != nil:
			err = s.downward(out, pod, p.DownwardAPI.Items, mode)
		case p.ServiceAccountToken != nil:
			var t string
			if t, err = s.token(ctx, pod, v.Name, p.ServiceAccountToken); err == nil {
				m := modeOf(nil, mode)
				if mode == nil || *mode == defaultMode {
					m = 0o600 // a credential
					if group := fsGroup(pod); group != nil || runsAsOther(pod) {
						m = 0o644
					}
				}
				out[p.ServiceAccountToken.Path] = file{[]byte(t), m}
			}
		default:
			err = fmt.Errorf("projected source %d: %w", i, ErrUnsupported)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runsAsOther tells whether a container may not be root.
func runsAsOther(pod *corev1.Pod) bool {
	other := func(u *int64, nonRoot *bool) bool { return u != nil && *u != 0 || nonRoot != nil && *nonRoot }
	if sc := pod.Spec.SecurityContext; sc != nil && other(sc.RunAsUser, sc.RunAsNonRoot) {
		return true
	}
	for i := range pod.Spec.Containers {
		if sc := pod.Spec.Containers[i].SecurityContext; sc != nil && other(sc.RunAsUser, sc.RunAsNonRoot) {
			return true
		}
	}
	return false
}

// token returns the token in the volume, or a new one if it is due.
func (s *Set) token(ctx context.Context, pod *corev1.Pod, volume string, p *corev1.ServiceAccountTokenProjection) (string, error) {
	key := volume + "/" + p.Path
	if t, ok := s.tokens[key]; ok && time.Now().Before(t.renew) {
		return t.value, nil
	}
	value, renew, err := s.Sources.Token(ctx, pod, p)
	if err != nil {
		return "", err
	}
	if s.tokens == nil {
		s.tokens = map[string]token{}
	}
	s.tokens[key] = token{value, renew}
	return value, nil
}

func (s *Set) configMap(ctx context.Context, out map[string]file, namespace, name string, items []corev1.KeyToPath, mode *int32, optional *bool) error {
	c, err := s.Sources.ConfigMap(ctx, namespace, name)
	if err != nil {
		if forgiven(err, optional) {
			return nil
		}
		return err
	}
	data := make(map[string][]byte, len(c.Data)+len(c.BinaryData))
	for k, v := range c.Data {
		data[k] = []byte(v)
	}
	maps.Copy(data, c.BinaryData)
	return pick(out, data, items, mode, optional, "configmap")
}

func (s *Set) secret(ctx context.Context, out map[string]file, namespace, name string, items []corev1.KeyToPath, mode *int32, optional *bool) error {
	c, err := s.Sources.Secret(ctx, namespace, name)
	if err != nil {
		if forgiven(err, optional) {
			return nil
		}
		return err
	}
	return pick(out, c.Data, items, mode, optional, "secret")
}

func forgiven(err error, optional *bool) bool {
	return optional != nil && *optional && apierrors.IsNotFound(err)
}

// pick adds the keys that items name, or all, to out.
func pick(out map[string]file, data map[string][]byte, items []corev1.KeyToPath, mode *int32, optional *bool, kind string) error {
	if len(items) == 0 {
		for k, v := range data {
			out[k] = file{v, modeOf(nil, mode)}
		}
		return nil
	}
	for _, item := range items {
		v, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("references non-existent %s key: %s", kind, item.Key)
		}
		out[path.Clean(item.Path)] = file{v, modeOf(item.Mode, mode)}
	}
	return nil
}

func (s *Set) downward(out map[string]file, pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = Field(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = Resource(pod, item.ResourceFieldRef, item.ResourceFieldRef.ContainerName, s.Sources.Allocatable)
		}
		if err != nil {
			return err
		}
		out[path.Clean(item.Path)] = file{[]byte(value), modeOf(item.Mode, mode)}
	}
	return nil
}

// The names that make a change of many files one step: what readers see are
// links to dataLink/..., and dataLink is moved from one folder to the next.
const (
	dataLink = "..data"
	dataTmp  = "..data_tmp"
)

// writeFiles makes dir hold just these files. It changes nothing if they are
// the same already.
func writeFiles(dir string, files map[string]file, group *int64) error {
	for name := range files {
		if !filepath.IsLocal(name) || strings.HasPrefix(name, "..") {
			return fmt.Errorf("path %q leads out of the volume", name)
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if old != "" && same(filepath.Join(dir, old), files) {
		return nil
	}
	next, err := os.MkdirTemp(dir, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return err
	}
	if err := writeAll(next, files, group); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	tmp := filepath.Join(dir, dataTmp)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(next), tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := link(dir, files); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

func writeAll(dir string, files map[string]file, group *int64) error {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // containers run as any user
		return err
	}
	for name, f := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil { //nolint:gosec // containers run as any user
			return err
		}
		if err := os.WriteFile(p, f.data, f.mode); err != nil {
			return err
		}
		mode := f.mode
		if group != nil {
			if err := os.Chown(p, -1, int(*group)); err != nil {
				return err
			}
			mode |= 0o440
		}
		if err := os.Chmod(p, mode); err != nil { // whatever the umask
			return err
		}
	}
	return nil
}

// link makes the links in dir that lead to files, and removes others.
func link(dir string, files map[string]file) error {
	want := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		want[first] = true
	}
	for name := range want {
		p := filepath.Join(dir, name)
		if _, err := os.Lstat(p); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join(dataLink, name), p); err != nil {
			return err
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !want[e.Name()] && !strings.HasPrefix(e.Name(), "..") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// same tells whether a folder holds just these files.
func same(dir string, files map[string]file) bool {
	n := 0
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p) //nolint:gosec // in the volume
		if f, ok := files[name]; err != nil || !ok || !bytes.Equal(b, f.data) {
			return errors.Join(err, errDiffers)
		}
		return nil
	})
	return err == nil && n == len(files)
}

var errDiffers = errors.New("differs")
