package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/podworker"
)

// sandboxOptions returns what the pod's sandbox is made with.
func (w *worker) sandboxOptions(pod *corev1.Pod, attempt int) cri.SandboxOptions {
	o := cri.SandboxOptions{
		Attempt: attempt, Hostname: hostname(pod), LogDir: w.logDir, CgroupParent: w.agent.cgroups.path(pod),
		DNS: w.agent.dns(pod),
	}
	if pod.Spec.RuntimeClassName != nil {
		o.Handler = *pod.Spec.RuntimeClassName
	}
	return o
}

// hostname returns the name that the pod's containers see as their host's.
func hostname(pod *corev1.Pod) string {
	const longest = 63
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > longest {
		name = strings.TrimRight(name[:longest], "-.")
	}
	return name
}

// dns returns the content of the pod's resolv.conf; nil leaves the host's.
func (a *Agent) dns(pod *corev1.Pod) *cri.DNS {
	d := &cri.DNS{}
	switch pod.Spec.DNSPolicy {
	case corev1.DNSNone:
	case corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, "":
		if len(a.ClusterDNS) == 0 || pod.Spec.HostNetwork && pod.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
			d = nil
			break
		}
		d.Servers = append(d.Servers, a.ClusterDNS...)
		if a.ClusterDomain != "" {
			d.Searches = []string{pod.Namespace + ".svc." + a.ClusterDomain, "svc." + a.ClusterDomain, a.ClusterDomain}
		}
		d.Options = []string{"ndots:5"}
	default:
		d = nil
	}
	own := pod.Spec.DNSConfig
	if own == nil {
		return d
	}
	if d == nil {
		d = &cri.DNS{}
	}
	d.Servers = append(d.Servers, own.Nameservers...)
	d.Searches = append(d.Searches, own.Searches...)
	for _, o := range own.Options {
		if o.Value != nil {
			d.Options = append(d.Options, o.Name+":"+*o.Value)
		} else {
			d.Options = append(d.Options, o.Name)
		}
	}
	return d
}

func (w *worker) logPath(container string, attempt int) string {
	return filepath.Join(w.logDir, container, strconv.Itoa(attempt)+".log")
}

// messagePath is the file in which a container says why it ended.
func (w *worker) messagePath(container string, attempt int) string {
	return filepath.Join(w.containerDir(container), strconv.Itoa(attempt)+".message")
}

// containerOptions returns what an instance of a container is made with.
func (w *worker) containerOptions(ctx context.Context, pod *corev1.Pod, c *corev1.Container, a podworker.Action) (cri.ContainerOptions, error) {
	o := cri.ContainerOptions{
		Attempt: a.Attempt, Streak: a.Streak, ImageRef: a.ImageRef,
		LogPath:     filepath.Join(c.Name, strconv.Itoa(a.Attempt)+".log"),
		OOMScoreAdj: oomScoreAdj(pod, c, w.agent.node.capacity()),
	}
	for _, s := range w.observed.Sandboxes {
		if s.ID == a.ID {
			o.Sandbox = w.sandboxOptions(pod, s.Attempt)
		}
	}
	if err := w.checkUser(ctx, pod, c, a.ImageRef); err != nil {
		return o, err
	}
	env, err := w.environment(ctx, pod, c)
	if err != nil {
		return o, err
	}
	o.Env = env
	lookup := lookupIn(env)
	for _, s := range c.Command {
		o.Command = append(o.Command, expand(s, lookup))
	}
	for _, s := range c.Args {
		o.Args = append(o.Args, expand(s, lookup))
	}
	o.Mounts, err = w.mounts(pod, c, a.Attempt, lookup)
	return o, err
}

// checkUser refuses to run as root what must not.
func (w *worker) checkUser(ctx context.Context, pod *corev1.Pod, c *corev1.Container, image string) error {
	var nonRoot bool
	var user *int64
	if sc := pod.Spec.SecurityContext; sc != nil {
		nonRoot, user = sc.RunAsNonRoot != nil && *sc.RunAsNonRoot, sc.RunAsUser
	}
	if sc := c.SecurityContext; sc != nil {
		if sc.RunAsNonRoot != nil {
			nonRoot = *sc.RunAsNonRoot
		}
		if sc.RunAsUser != nil {
			user = sc.RunAsUser
		}
	}
	if !nonRoot {
		return nil
	}
	where := fmt.Sprintf("(pod: %q, container: %s)", podRef(pod), c.Name)
	if user != nil {
		if *user == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
		}
		return nil
	}
	i, err := w.agent.Runtime.Image(ctx, image)
	switch {
	case err != nil:
		return err
	case i.User != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", i.User, where)
	case i.UID == nil || *i.UID == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", where)
	}
	return nil
}

func podRef(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// mounts returns what is put into a container: volumes, /etc/hosts and the
// file for its last words.
func (w *worker) mounts(pod *corev1.Pod, c *corev1.Container, attempt int, lookup func(string) (string, bool)) ([]cri.Mount, error) {
	var list []cri.Mount
	paths := w.volumes.Paths(pod)
	hosts := pod.Spec.HostNetwork // it has the host's
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		dir, ok := paths[m.Name]
		if !ok {
			return nil, fmt.Errorf("volume %q of container %q is not there", m.Name, c.Name)
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expand(m.SubPathExpr, lookup)
		}
		if sub != "" {
			var err error
			if dir, err = subPath(dir, sub); err != nil {
				return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", m.Name, c.Name, err)
			}
		}
		to := m.MountPath
		if !filepath.IsAbs(to) {
			to = filepath.Join("/", to)
		}
		cm := cri.Mount{HostPath: dir, ContainerPath: to, ReadOnly: m.ReadOnly}
		if m.MountPropagation != nil {
			cm.Propagation = *m.MountPropagation
		}
		hosts = hosts || to == "/etc/hosts"
		list = append(list, cm)
	}
	if !hosts {
		path, err := w.writeHosts(pod)
		if err != nil {
			return nil, err
		}
		readOnly := c.SecurityContext != nil && c.SecurityContext.ReadOnlyRootFilesystem != nil && *c.SecurityContext.ReadOnlyRootFilesystem
		list = append(list, cri.Mount{HostPath: path, ContainerPath: "/etc/hosts", ReadOnly: readOnly})
	}
	if c.TerminationMessagePath != "" {
		path := w.messagePath(c.Name, attempt)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666) //nolint:gosec // containers run as any user
		if err != nil {
			return nil, err
		}
		if err := errors.Join(f.Chmod(0o666), f.Close()); err != nil {
			return nil, err
		}
		list = append(list, cri.Mount{HostPath: path, ContainerPath: c.TerminationMessagePath})
	}
	return list, nil
}

// subPath returns a folder or file in a volume, and makes a folder if there is
// nothing. Links that lead out of the volume are refused.
func subPath(dir, sub string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%q is not a directory", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	if _, err := root.Stat(sub); errors.Is(err, os.ErrNotExist) {
		err = root.MkdirAll(sub, 0o755)
		if err == nil {
			err = root.Chmod(sub, info.Mode().Perm())
		}
		if err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(filepath.Join(dir, sub))
}

// writeHosts writes the pod's /etc/hosts.
func (w *worker) writeHosts(pod *corev1.Pod) (string, error) {
	var b strings.Builder
	b.WriteString("# Written by the node agent.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	name := hostname(pod)
	full := name
	if pod.Spec.Subdomain != "" && w.agent.ClusterDomain != "" {
		full = name + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + w.agent.ClusterDomain + "\t" + name
	}
	for _, ip := range pod.Status.PodIPs {
		fmt.Fprintf(&b, "%s\t%s\n", ip.IP, full)
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	path := filepath.Join(w.dir(), "etc-hosts")
	return path, os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // containers run as any user
}

const (
	longestMessage    = 4096
	longestLogMessage = 2048
)

// readMessage fills in the last words of a container that ended.
func (w *worker) readMessage(c *podworker.Container) {
	if c.State != podworker.Exited || c.Message != "" {
		return
	}
	c.Message = readEnd(w.messagePath(c.Name, c.Attempt), longestMessage)
	pod, _ := w.latest()
	spec := container(pod, c.Name)
	if c.Message == "" && c.ExitCode != 0 && spec != nil && spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		var b strings.Builder
		for line := range strings.Lines(readEnd(w.logPath(c.Name, c.Attempt), 4*longestLogMessage)) {
			if f := strings.SplitN(line, " ", 4); len(f) == 4 {
				b.WriteString(f[3])
			}
		}
		c.Message = b.String()[max(0, b.Len()-longestLogMessage):]
	}
}

// readEnd returns the last bytes of a file, "" if it cannot be read.
func readEnd(path string, limit int64) string {
	f, err := os.Open(path) // a file of ours
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	if info, failed := f.Stat(); failed == nil && info.Size() > limit {
		if _, err = f.Seek(-limit, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	return string(b)
}

// oomScoreAdj returns how readily the kernel ends the container when memory
// runs out, by its quality of service.
func oomScoreAdj(pod *corev1.Pod, c *corev1.Container, capacity corev1.ResourceList) int64 {
	switch podworker.QOS(pod) {
	case corev1.PodQOSGuaranteed:
		return -997
	case corev1.PodQOSBestEffort:
		return 1000
	default:
	}
	total := capacity[corev1.ResourceMemory]
	request := c.Resources.Requests[corev1.ResourceMemory]
	if total.IsZero() {
		return 999
	}
	return min(max(1000-1000*request.Value()/total.Value(), 3), 999)
}
