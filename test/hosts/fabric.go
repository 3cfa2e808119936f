package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proa-project/proa/test/images"
)

const (
	envDir    = "PROA_HOSTS_DIR" // the fabric's folder; set means inside
	prefix    = "proa-hosts-"    // of folders and cgroups
	bridge    = "fabric0"
	fabricIP  = "172.30.0.254"
	maxHosts  = 40
	cgroupTop = "/sys/fs/cgroup"
)

// Run calls run inside a fabric and returns its exit code. Without root it
// calls run where it is, and New skips.
func Run(run func() int) int {
	if os.Geteuid() != 0 {
		return run()
	}
	if os.Getenv(envDir) != "" {
		if err := inside(); err != nil {
			fmt.Fprintln(os.Stderr, "hosts: set up the fabric:", err)
			return 1
		}
		return run()
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		return 1
	}
	return code
}

// outside runs this program again in new namespaces, and cleans up after it.
func outside() (int, error) {
	removeLeftovers()
	// inside there is no network to build it with
	if _, err := BuildRuntime(context.Background()); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	defer remove(dir)
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600) // in our own folder
	if err != nil {
		return 0, fmt.Errorf("make a lock: %w", err)
	}
	defer lock.Close() // the lock goes with the process
	if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return 0, fmt.Errorf("lock %q: %w", lock.Name(), err)
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	// the child is told to die with the thread that made it
	runtime.LockOSThread()
	cmd := exec.CommandContext(context.Background(), self, os.Args[1:]...) // this program
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), envDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	// the child sees what the terminal sends, and ends; this process waits for it
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("make namespaces: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return max(exit.ExitCode(), 1), nil
			}
			return 0, err
		case s := <-signals:
			if s == syscall.SIGTERM {
				cmd.Process.Signal(s) // it may have ended
			}
		}
	}
}

// inside makes of the new namespaces a place to work in.
func inside() error {
	// mounts of the machine arrive here, none of ours leave; below here they
	// spread, as containers with mount propagation need
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make the mounts ours: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, dir := range []string{"/run", "/var/lib/cni"} { // what daemons share by a fixed path
		if err := os.MkdirAll(dir, 0o755); err != nil { // as it is on every machine
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	if err := unix.Sethostname([]byte("fabric")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	for _, args := range []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"addr add " + fabricIP + "/24 dev " + bridge,
		"link set " + bridge + " up",
	} {
		if err := ip(args); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}

// ip runs the ip command.
func ip(args string) error { return command("ip", strings.Fields(args)...) }

func command(name string, args ...string) error {
	out, err := exec.CommandContext(context.Background(), name, args...).CombinedOutput() // set-up of a test
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// A Fabric is what hosts are on.
type Fabric struct {
	// Dir is the fabric's folder, gone at the end.
	Dir string
	// Bin holds the runtime's programs.
	Bin string
	// Images are archives of the test images, imported on each host.
	Images []string
}

// IP is the address of the fabric itself, where a test's servers may listen
// for hosts and pods to reach.
func (f *Fabric) IP() string { return fabricIP }

// New returns the fabric that the test runs in, with the runtime built. It
// skips the test where there is no root.
func New(tb testing.TB) *Fabric {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root for network namespaces and containerd: run the test as root")
	}
	f, err := Open(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// Open returns the fabric that this process runs in.
func Open(ctx context.Context) (*Fabric, error) {
	dir := os.Getenv(envDir)
	if dir == "" {
		return nil, errors.New("not in a fabric: call hosts.Run first, in TestMain")
	}
	bin, err := BuildRuntime(ctx)
	if err != nil {
		return nil, err
	}
	list, err := images.Build(ctx, Cache())
	if err != nil {
		return nil, err
	}
	return &Fabric{Dir: dir, Bin: bin, Images: list}, nil
}

// Cache returns the folder for what takes long to build: $PROA_CACHE, or
// .cache in the checkout.
func Cache() string {
	if dir := os.Getenv("PROA_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(sourceDir(), "..", "..", ".cache")
}

func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// BuildRuntime builds containerd and what belongs to it, unless the cache has
// it, and returns the folder of the programs. The first time it needs the
// network, which a fabric does not have: Run calls it before.
func BuildRuntime(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(sourceDir(), "build.sh")) // ours
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build the container runtime: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], nil
}

// removeLeftovers removes what fabrics left behind that did not end by
// themselves: their lock is free.
func removeLeftovers() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0) // ours by its name
		if err != nil {
			if info, statErr := os.Stat(dir); statErr == nil && time.Since(info.ModTime()) > time.Hour {
				remove(dir)
			}
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			remove(dir)
		}
		lock.Close() // nothing was written
	}
}

// remove removes a fabric's cgroups and folder. All its processes are gone.
func remove(dir string) {
	tops, _ := filepath.Glob(filepath.Join(cgroupTop, "*", filepath.Base(dir)))
	for _, top := range append(tops, filepath.Join(cgroupTop, filepath.Base(dir))) {
		removeCgroups(top)
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "hosts: clean up:", err)
	}
}

// removeCgroups removes a cgroup with those below it.
func removeCgroups(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if e.IsDir() {
			removeCgroups(filepath.Join(dir, e.Name()))
		}
	}
	for range 50 { // processes that were just killed take a moment to leave
		if err := os.Remove(dir); !errors.Is(err, syscall.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the kernel tells nobody
	}
}
