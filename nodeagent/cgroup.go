package nodeagent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/podworker"
)

// cgroups lays out the pods' control groups by quality of service, as
//
//	PARENT/podUID
//	PARENT/burstable/podUID
//	PARENT/besteffort/podUID
//
// with the pod's limits on each. The runtime puts containers below. It works
// on version 2 and, where the memory controller is on it, version 1 of cgroups.
// Where neither is writable pods have no limits of their own, but those of
// their containers.
type cgroups struct {
	parent string
	log    zerolog.Logger
	// mounts are where the controllers are: one, unified, or one per controller.
	unified string
	v1      map[string]string
}

// v1Controllers are those that a pod's limits need.
func v1Controllers() []string { return []string{"memory", "cpu", "pids"} }

func newCgroups(parent string, log zerolog.Logger) *cgroups {
	c := &cgroups{parent: parent, log: log, v1: map[string]string{}}
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return c
	}
	c.find(string(b))
	return c
}

// find reads where the controllers are mounted from the text of /proc/mounts.
func (c *cgroups) find(mounts string) {
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup2":
			c.unified = f[1]
		case "cgroup":
			for o := range strings.SplitSeq(f[3], ",") {
				for _, name := range v1Controllers() {
					if o == name && c.v1[name] == "" {
						c.v1[name] = f[1]
					}
				}
			}
		}
	}
	if c.v1["memory"] != "" {
		c.unified = "" // the version that has memory is the one in use
	} else if c.unified != "" {
		c.v1 = map[string]string{}
	}
}

// path returns the pod's cgroup.
func (c *cgroups) path(pod *corev1.Pod) string {
	name := "pod" + string(pod.UID)
	switch podworker.QOS(pod) {
	case corev1.PodQOSGuaranteed:
		return filepath.Join(c.parent, name)
	case corev1.PodQOSBurstable:
		return filepath.Join(c.parent, "burstable", name)
	default:
		return filepath.Join(c.parent, "besteffort", name)
	}
}

// prepare makes the groups of the classes.
func (c *cgroups) prepare() {
	for _, class := range []string{"", "burstable", "besteffort"} {
		shares := int64(0)
		if class == "besteffort" {
			shares = 2
		}
		if err := c.set(filepath.Join(c.parent, class), limits{shares: shares}); err != nil {
			c.log.Debug().Err(err).Str("class", class).Msg("cannot make the control group of a class")
		}
	}
}

// limits are what a group may use; 0 is no limit.
type limits struct{ memory, quota, shares int64 }

// podLimits returns the sum of what the containers may use; a resource that one
// of them has no limit of has none.
func podLimits(pod *corev1.Pod) limits {
	var l limits
	var milli, request int64
	memoryBound, cpuBound := true, true
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		memory, cpu := r.Limits[corev1.ResourceMemory], r.Limits[corev1.ResourceCPU]
		memoryBound, cpuBound = memoryBound && !memory.IsZero(), cpuBound && !cpu.IsZero()
		l.memory += memory.Value()
		milli += cpu.MilliValue()
		asked := r.Requests[corev1.ResourceCPU]
		if asked.IsZero() {
			asked = cpu
		}
		request += asked.MilliValue()
	}
	for i := range pod.Spec.InitContainers {
		r := &pod.Spec.InitContainers[i].Resources
		memory, cpu := r.Limits[corev1.ResourceMemory], r.Limits[corev1.ResourceCPU]
		memoryBound, cpuBound = memoryBound && !memory.IsZero(), cpuBound && !cpu.IsZero()
		l.memory = max(l.memory, memory.Value())
		milli = max(milli, cpu.MilliValue())
	}
	if !memoryBound {
		l.memory = 0
	}
	if cpuBound {
		l.quota = cri.CPUQuota(milli)
	}
	l.shares = cri.CPUShares(request)
	return l
}

// add makes the pod's group. A machine on which that is not allowed is no
// reason not to run the pod.
func (c *cgroups) add(pod *corev1.Pod) {
	if err := c.set(c.path(pod), podLimits(pod)); err != nil {
		c.log.Debug().Err(err).Str("pod", pod.Name).Msg("cannot limit a pod as a whole")
	}
}

func (c *cgroups) set(path string, l limits) error {
	if c.unified != "" {
		return c.setUnified(path, l)
	}
	var errs []error
	for name, mount := range c.v1 {
		dir := filepath.Join(mount, path)
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as everywhere in cgroupfs
			errs = append(errs, err)
			continue
		}
		switch name {
		case "memory":
			errs = append(errs, write(dir, "memory.limit_in_bytes", l.memory))
		case "cpu":
			errs = append(errs, write(dir, "cpu.shares", l.shares))
			if l.quota > 0 {
				errs = append(errs, write(dir, "cpu.cfs_period_us", cri.CPUPeriod), write(dir, "cpu.cfs_quota_us", l.quota))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *cgroups) setUnified(path string, l limits) error {
	dir := c.unified
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		// a controller is there below a group only if the group hands it on
		for _, name := range []string{"+memory", "+cpu", "+pids", "+cpuset", "+io"} {
			os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(name), 0o644) //nolint:errcheck,gosec // those that are not there are not missed
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // as everywhere in cgroupfs
			return err
		}
	}
	var errs []error
	errs = append(errs, write(dir, "memory.max", l.memory))
	if l.shares > 0 {
		errs = append(errs, write(dir, "cpu.weight", weight(l.shares)))
	}
	if l.quota > 0 {
		errs = append(errs, os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%d %d", l.quota, cri.CPUPeriod), 0o644)) //nolint:gosec // as everywhere in cgroupfs
	}
	return errors.Join(errs...)
}

// weight translates a weight of version 1, from 2 to 262144, to one of
// version 2, from 1 to 10000.
func weight(shares int64) int64 { return 1 + (min(max(shares, 2), 262144)-2)*9999/262142 }

// write writes a number to a group's file; 0 leaves it as it is.
func write(dir, name string, n int64) error {
	if n == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(strconv.FormatInt(n, 10)), 0o644) //nolint:gosec // as everywhere in cgroupfs
}

// remove removes the pod's group, wherever it is: a pod that the API does not
// have any more does not tell its class.
func (c *cgroups) remove(pod *corev1.Pod) error {
	name := "pod" + string(pod.UID)
	tops := []string{c.unified}
	if c.unified == "" {
		// the runtime makes groups of every controller
		var err error
		if tops, err = filepath.Glob("/sys/fs/cgroup/*"); err != nil {
			return err
		}
	}
	var errs []error
	for _, top := range tops {
		for _, class := range []string{"", "burstable", "besteffort"} {
			errs = append(errs, removeGroup(filepath.Join(top, c.parent, class, name)))
		}
	}
	return errors.Join(errs...)
}

// removeGroup removes a group with those below it, all without processes.
func removeGroup(dir string) error {
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove control group %q: %w", dir, err)
	}
	return nil
}
