// Package hosts makes machines: network-namespace hosts on one bridge, each
// with its own containerd, for tests and for the demo.
//
// Everything lives in a fabric: a set of new network, mount, process, host
// name and IPC namespaces into which the program re-executes itself. The
// bridge, the hosts and their pods are inside; no route leads out. What the
// machine has is neither used nor changed, and when the fabric's first process
// ends, for whatever reason, the kernel takes everything down with it. Two
// things outlive it, folders and cgroups; they are removed at the end, and
// those of a fabric that was killed when the next one starts.
//
//	func TestMain(m *testing.M) { os.Exit(hosts.Run(m.Run)) }
//
//	func TestTwo(t *testing.T) {
//		f := hosts.New(t)
//		a, b := f.Start(t, 1), f.Start(t, 2)
//		...
//	}
//
// The fabric has the address 172.30.0.254, host N has 172.30.0.(10+N) and pods
// in 10.244.(10+N).0/24; all can reach each other. A host's process
// namespace makes PowerOff what it says: every process on it is gone at once.
// KillContainerd ends only the daemon, and leaves the pods running.
package hosts
