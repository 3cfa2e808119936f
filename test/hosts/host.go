package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proa-project/proa/nodeagent/cri"
)

// A Host is one machine: namespaces and a containerd.
type Host struct {
	Name    string // "node1"
	IP      string // on the fabric
	PodCIDR string
	Dir     string
	// Endpoint is containerd's socket, reachable from everywhere in the fabric.
	Endpoint string
	// CgroupParent is below which the host's pods are to be.
	CgroupParent string

	fabric *Fabric
	number int

	mu     sync.Mutex // guards the fields below
	init   *exec.Cmd  // the host's first process, nil when off
	daemon *exec.Cmd  // containerd, nil when killed
}

// Start makes host n, 1 or more, with containerd running and the test images
// imported. It is powered off when the test ends.
func (f *Fabric) Start(tb testing.TB, n int) *Host {
	tb.Helper()
	h, err := f.Add(tb.Context(), n)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("containerd of %s said:\n%s", h.Name, h.log(40))
		}
		if err := h.Remove(); err != nil {
			tb.Error(err)
		}
	})
	return h
}

// Add makes host n, as Start does; the caller removes it.
func (f *Fabric) Add(ctx context.Context, n int) (*Host, error) {
	if n < 1 || n > maxHosts {
		return nil, fmt.Errorf("host number %d is not from 1 to %d", n, maxHosts)
	}
	name := "node" + strconv.Itoa(n)
	dir := filepath.Join(f.Dir, name)
	h := &Host{
		Name: name, IP: fmt.Sprintf("172.30.0.%d", 10+n), PodCIDR: fmt.Sprintf("10.244.%d.0/24", 10+n), Dir: dir,
		Endpoint:     "unix://" + filepath.Join(dir, "containerd.sock"),
		CgroupParent: "/" + filepath.Base(f.Dir) + "/" + name + "/kubepods",
		fabric:       f, number: n,
	}
	if err := h.writeConfig(); err != nil {
		return nil, fmt.Errorf("configure %s: %w", name, err)
	}
	if err := h.PowerOn(ctx); err != nil {
		return nil, errors.Join(err, h.Remove())
	}
	if err := h.Import(ctx, f.Images...); err != nil {
		return nil, errors.Join(err, h.Remove())
	}
	return h, nil
}

// boot is the first program on a host: it mounts what is the host's own, says
// that it is up, and reaps orphans.
const boot = `
mount --make-rslave / && mount --make-rshared / && mount -t proc none /proc && hostname "$1" || exit 1
echo up
while :; do sleep 3600 & wait $!; done
`

// PowerOn starts a host, as it was before if it was off.
func (h *Host) PowerOn(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.init != nil {
		return nil
	}
	cmd := exec.Command("bash", "-c", boot, "boot", h.Name) // it outlives the call
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", h.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", h.Name, err)
	}
	h.init = cmd
	if _, err := io.ReadFull(stdout, make([]byte, len("up\n"))); err != nil {
		return fmt.Errorf("%s did not come up: %w", h.Name, err)
	}
	if err := h.connect(); err != nil {
		return fmt.Errorf("connect %s: %w", h.Name, err)
	}
	return h.startContainerd(ctx)
}

// gone says that a device is not there: it went with the host's namespace, before
// or while it was looked up.
func gone(err error) bool {
	return strings.Contains(err.Error(), "Cannot find device") || strings.Contains(err.Error(), "No such device")
}

// connect wires the host to the bridge.
func (h *Host) connect() error {
	pid, wire := strconv.Itoa(h.init.Process.Pid), "wire"+strconv.Itoa(h.number)
	if err := ip("link add " + wire + " type veth peer name eth0 netns " + pid); err != nil {
		return err
	}
	if err := ip("link set " + wire + " master " + bridge + " up"); err != nil {
		return err
	}
	in := func(args string) error {
		return command("nsenter", append([]string{"-t", pid, "-n", "ip"}, strings.Fields(args)...)...)
	}
	for _, args := range []string{"link set lo up", "addr add " + h.IP + "/24 dev eth0", "link set eth0 up"} {
		if err := in(args); err != nil {
			return err
		}
	}
	if err := command("nsenter", "-t", pid, "-n", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"); err != nil {
		return err
	}
	for n := 1; n <= maxHosts; n++ { // pods of the others, there or not
		if n != h.number {
			if err := in(fmt.Sprintf("route add 10.244.%d.0/24 via 172.30.0.%d", 10+n, 10+n)); err != nil {
				return err
			}
		}
	}
	return ip("route replace " + h.PodCIDR + " via " + h.IP)
}

// PowerOff ends everything on the host at once.
func (h *Host) PowerOff() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.init == nil {
		return nil
	}
	if err := h.init.Process.Kill(); err != nil {
		return fmt.Errorf("power off %s: %w", h.Name, err)
	}
	h.init.Wait() // it was killed
	h.init = nil
	if h.daemon != nil {
		h.daemon.Wait() // it was killed
		h.daemon = nil
	}
	// the kernel takes its time with a network, and a socket keeps it alive
	if err := ip("link del wire" + strconv.Itoa(h.number)); err != nil && !gone(err) {
		return err
	}
	return nil
}

// Remove powers the host off and removes what it left.
func (h *Host) Remove() error {
	if err := h.PowerOff(); err != nil {
		return err
	}
	top := strings.TrimSuffix(h.CgroupParent, "/kubepods")
	dirs, _ := filepath.Glob(filepath.Join(cgroupTop, "*") + top)
	for _, dir := range append(dirs, cgroupTop+top) {
		removeCgroups(dir)
	}
	unmountBelow(h.Dir)
	return os.RemoveAll(h.Dir)
}

// unmountBelow unmounts what was mounted from the fabric below a folder.
func unmountBelow(dir string) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(b), "\n")
	for _, line := range slices.Backward(lines) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			unix.Unmount(f[1], unix.MNT_DETACH) // best effort
		}
	}
}

// Partition cuts the host off from the fabric; Heal joins it again.
func (h *Host) Partition() error { return ip("link set wire" + strconv.Itoa(h.number) + " down") }

// Heal undoes Partition.
func (h *Host) Heal() error {
	if err := ip("link set wire" + strconv.Itoa(h.number) + " up"); err != nil {
		return err
	}
	return ip("route replace " + h.PodCIDR + " via " + h.IP)
}

// KillContainerd kills the daemon; pods go on running.
func (h *Host) KillContainerd() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.daemon == nil {
		return nil
	}
	pid, err := os.ReadFile(filepath.Join(h.Dir, "pid"))
	if err != nil {
		return fmt.Errorf("find containerd of %s: %w", h.Name, err)
	}
	kill := h.enter(context.Background(), "kill", "-9", strings.TrimSpace(string(pid)))
	if out, err := kill.CombinedOutput(); err != nil {
		return fmt.Errorf("kill containerd of %s: %w: %s", h.Name, err, out)
	}
	h.daemon.Wait() // it was killed
	h.daemon = nil
	return nil
}

// StartContainerd starts the daemon after KillContainerd, and waits until it
// answers.
func (h *Host) StartContainerd(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.daemon != nil {
		return nil
	}
	return h.startContainerd(ctx)
}

func (h *Host) startContainerd(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(h.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", h.Name, err)
	}
	defer log.Close() // containerd has it open for itself
	cmd := h.enter(context.Background(), "sh", "-c", `cd "$0" && echo $$ > pid && exec "$1" -c config.toml`, h.Dir, filepath.Join(h.fabric.Bin, "containerd"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PATH="+h.fabric.Bin+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start containerd of %s: %w", h.Name, err)
	}
	h.daemon = cmd
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := h.awaitReady(ctx); err != nil {
		return fmt.Errorf("containerd of %s: %w\n%s", h.Name, err, h.log(20))
	}
	return nil
}

func (h *Host) awaitReady(ctx context.Context) error {
	r, err := cri.Dial(cri.Config{Endpoint: h.Endpoint})
	if err != nil {
		return err
	}
	defer r.Close() // a connection that was only read from
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := r.Status(ctx)
		if err == nil && s.RuntimeReady && s.NetworkReady {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// Import loads image archives into the host's containerd.
func (h *Host) Import(ctx context.Context, archives ...string) error {
	r, err := cri.Dial(cri.Config{Endpoint: h.Endpoint})
	if err != nil {
		return err
	}
	defer r.Close() // a connection that was only read from
	for _, path := range archives {
		f, err := os.Open(path) // an archive that we built
		if err != nil {
			return err
		}
		_, err = r.Import(ctx, f)
		f.Close() // only read
		if err != nil {
			return fmt.Errorf("import %q on %s: %w", path, h.Name, err)
		}
	}
	return nil
}

// Command returns a command that runs on the host.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.enter(ctx, name, args...)
}

func (h *Host) enter(ctx context.Context, name string, args ...string) *exec.Cmd {
	pid := strconv.Itoa(h.init.Process.Pid)
	a := append([]string{"-t", pid, "-m", "-n", "-u", "-i", "-p", "--", name}, args...)
	return exec.CommandContext(ctx, "nsenter", a...) // a test's own command
}

// InNetwork calls f on a thread that is in the host's network: sockets made
// there belong to the host.
func (h *Host) InNetwork(f func() error) error {
	h.mu.Lock()
	pid := h.init.Process.Pid
	h.mu.Unlock()
	result := make(chan error, 1)
	go func() {
		// never unlocked: the thread ends with this goroutine
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			result <- err
			return
		}
		defer ns.Close() // only read
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter the network of %s: %w", h.Name, err)
			return
		}
		result <- f()
	}()
	return <-result
}

// Listen listens on a TCP port of the host; 0 picks one.
func (h *Host) Listen(port int) (net.Listener, error) {
	var l net.Listener
	err := h.InNetwork(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(h.IP, strconv.Itoa(port))) // done at once
		return err
	})
	return l, err
}

// log returns the end of what containerd wrote.
func (h *Host) log(lines int) string {
	b, err := os.ReadFile(filepath.Join(h.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
