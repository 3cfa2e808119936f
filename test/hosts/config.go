package hosts

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/proa-project/proa/test/images"
)

// writeConfig writes containerd's and the pod network's configuration.
func (h *Host) writeConfig() error {
	for _, dir := range []string{"cni", "opt", "certs.d"} {
		if err := os.MkdirAll(filepath.Join(h.Dir, dir), 0o755); err != nil { // as containerd makes them
			return err
		}
	}
	network := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"pods","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"%[1]s/ipam","ranges":[[{"subnet":"%[2]s"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true},"snat":true,"backend":"nftables"}]}
`, h.Dir, h.PodCIDR)
	if err := os.WriteFile(filepath.Join(h.Dir, "cni", "10-bridge.conflist"), []byte(network), 0o600); err != nil {
		return err
	}
	// restrict_oom_score_adj: root of a container may not lower it.
	config := fmt.Sprintf(`version = 3
root = "%[1]s/root"
state = "%[1]s/state"

[grpc]
  address = "%[1]s/containerd.sock"
[ttrpc]
  address = "%[1]s/containerd.sock.ttrpc"

[plugins.'io.containerd.internal.v1.opt']
  path = "%[1]s/opt"
[plugins.'io.containerd.nri.v1.nri']
  disable = true
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "%[4]s"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "%[1]s/certs.d"
[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = "%[3]s"
  stream_server_port = "0"
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["%[2]s/cni"]
    conf_dir = "%[1]s/cni"
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "%[2]s/runc"
        SystemdCgroup = false
        Root = "%[1]s/runc"
`, h.Dir, h.fabric.Bin, h.IP, images.Pause)
	return os.WriteFile(filepath.Join(h.Dir, "config.toml"), []byte(config), 0o600)
}
