package nodeagent

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A machine is what the node has and how much of it is left.
type machine struct {
	cpus                 int64
	memory, memoryFree   int64 // bytes
	disk, diskFree       int64 // bytes, where the agent keeps volumes and logs
	pidsFree             int64
	machineID, bootID    string
	systemUUID           string
	kernel, distribution string
}

// readMachine looks at the machine; what cannot be found out is zero.
func readMachine(rootDir string) machine {
	m := machine{cpus: int64(runtime.NumCPU())}
	info := keyValues(readFile("/proc/meminfo"), ":")
	m.memory, m.memoryFree = kilobytes(info["MemTotal"]), kilobytes(info["MemAvailable"])
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, err := strconv.ParseInt(readFile(path), 10, 64); err == nil && n > 0 && n < m.memory {
			m.memory, m.memoryFree = n, min(m.memoryFree, n)
		}
	}
	var fs unix.Statfs_t
	if unix.Statfs(rootDir, &fs) == nil {
		m.disk, m.diskFree = int64(fs.Blocks)*fs.Bsize, int64(fs.Bavail)*fs.Bsize //nolint:gosec // far below 2^63
	}
	limit, err := strconv.ParseInt(readFile("/proc/sys/kernel/pid_max"), 10, 64)
	if err == nil {
		m.pidsFree = limit
		if f := strings.Fields(readFile("/proc/loadavg")); len(f) > 3 {
			if _, all, ok := strings.Cut(f[3], "/"); ok {
				if n, err := strconv.ParseInt(all, 10, 64); err == nil {
					m.pidsFree -= n
				}
			}
		}
	}
	m.machineID, m.bootID = readFile("/etc/machine-id"), readFile("/proc/sys/kernel/random/boot_id")
	m.systemUUID = readFile("/sys/class/dmi/id/product_uuid")
	if m.systemUUID == "" {
		m.systemUUID = m.machineID
	}
	m.kernel = readFile("/proc/sys/kernel/osrelease")
	m.distribution = strings.Trim(keyValues(readFile("/etc/os-release"), "=")["PRETTY_NAME"], `"`)
	return m
}

func readFile(path string) string {
	b, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func keyValues(text, separator string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, separator); ok {
			m[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return m
}

func kilobytes(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// kept is the memory that the node's own programs need.
const kept = 100 << 20

// resources returns what the node has and what of it pods may have.
func (m *machine) resources(maxPods int64) (capacity, allocatable corev1.ResourceList) {
	capacity = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(m.cpus, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(m.memory>>10<<10, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(m.disk>>10<<10, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	allocatable = capacity.DeepCopy()
	allocatable[corev1.ResourceMemory] = *resource.NewQuantity(max(0, m.memory-kept)>>10<<10, resource.BinarySI)
	allocatable[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(m.disk/10*9>>10<<10, resource.BinarySI)
	return capacity, allocatable
}

// nodeIP returns the address by which this machine reaches the API server, or
// if that is on the machine itself the first of its network cards.
func nodeIP(server string) (string, error) {
	if u, err := url.Parse(server); err == nil && u.Hostname() != "" {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		// connecting a UDP socket sends nothing: it only picks the route
		if c, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), port)); err == nil { //nolint:noctx // done at once
			defer c.Close() //nolint:errcheck // nothing was sent
			if a, ok := c.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsLoopback() && !a.IP.IsUnspecified() {
				return a.IP.String(), nil
			}
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "127.0.0.1", nil
}
