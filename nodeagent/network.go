package nodeagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// networkFile is the name of the configuration that writeNetwork writes.
const networkFile = "90-proa-bridge.conflist"

// writeNetwork gives the runtime a network for pods, a bridge of the node's
// own, if it was asked for and the folder has no configuration. Others' are
// left alone; pods of other nodes are not reached by it.
func writeNetwork(dir, cidr string) error {
	if dir == "" || cidr == "" {
		return nil
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return fmt.Errorf("the pods' addresses %q: %w", cidr, err)
	}
	for _, pattern := range []string{"*.conf", "*.conflist", "*.json"} {
		found, failed := filepath.Glob(filepath.Join(dir, pattern))
		if failed != nil {
			return fmt.Errorf("look for a pod network in %q: %w", dir, failed)
		}
		for _, path := range found {
			if filepath.Base(path) != networkFile {
				return nil
			}
		}
	}
	type object = map[string]any
	all := "0.0.0.0/0"
	if prefix.Addr().Is6() {
		all = "::/0"
	}
	text, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0", "name": "proa",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "proa0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": object{
					"type": "host-local", "ranges": [][]object{{{"subnet": prefix.Masked().String()}}},
					"routes": []object{{"dst": all}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}, "snat": true},
		},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the pod network: %w", err)
	}
	path := filepath.Join(dir, networkFile)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) { // our own file
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as the runtime makes it
		return fmt.Errorf("make %q: %w", dir, err)
	}
	tmp := path + ".tmp"
	if err := errors.Join(os.WriteFile(tmp, text, 0o644), os.Rename(tmp, path)); err != nil { //nolint:gosec // read by the runtime
		return fmt.Errorf("write the pod network: %w", err)
	}
	return nil
}
