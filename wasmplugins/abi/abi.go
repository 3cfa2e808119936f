// Package abi is the byte contract between Proa and the guests that are written
// for it: the functions of the native ABI, version 1, and the JSON that they
// exchange.
//
// A guest exports its memory and
//
//	proa_abi() -> i32                  0x00010000
//	proa_alloc(n i32) -> i32           n bytes for the host to write to, 8-aligned; 0 for no memory
//	proa_configure(p, n i32) -> i64    settings; optional
//	proa_admit(p, n i32) -> i64        an admission request
//
// and _initialize or _start, if it has to be initialised. What proa_alloc
// returned belongs to the host until it calls the function that the bytes are
// for, and to the guest from then on. An i64 result is ptr<<32 | len of the
// reply in the guest's memory, which the host reads at once; 0 is success
// without more to say.
//
// A guest may carry a manifest in the custom section "proa.manifest".
package abi

import (
	"encoding/json"
	"fmt"
)

// The exports.
const (
	ExportVersion   = "proa_abi"
	ExportAlloc     = "proa_alloc"
	ExportConfigure = "proa_configure"
	ExportAdmit     = "proa_admit"
)

// Version is what proa_abi returns: major<<16 | minor.
const Version = 0x00010000

// ManifestSection is the name of the custom section with the manifest.
const ManifestSection = "proa.manifest"

// A Manifest is what a module says of itself.
type Manifest struct {
	Name         string   `json:"name,omitempty"`
	Version      string   `json:"version,omitempty"`
	ABI          string   `json:"abi,omitempty"`
	Kinds        []string `json:"kinds,omitempty"` // admit, filter, score
	Capabilities []string `json:"capabilities,omitempty"`
	// Rules are the rules that the author recommends, as in a webhook.
	Rules json.RawMessage `json:"rules,omitempty"`
	// Finalizer says that a reconciler wants to be called before an object that
	// is being deleted goes away.
	Finalizer bool `json:"finalizer,omitempty"`
}

// ParseManifest decodes the custom section. An empty one is an empty manifest.
func ParseManifest(section []byte) (Manifest, error) {
	var m Manifest
	if len(section) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(section, &m); err != nil {
		return m, fmt.Errorf("section %s: %w", ManifestSection, err)
	}
	if m.ABI != "" && m.ABI != Native {
		return m, fmt.Errorf("section %s: unknown abi %q", ManifestSection, m.ABI)
	}
	return m, nil
}

// CheckVersion judges the result of proa_abi. A guest of another major version
// is refused, a newer minor one is fine.
func CheckVersion(v uint32) error {
	if v>>16 != Version>>16 {
		return fmt.Errorf("the guest is for version %d.%d of the ABI, this is %d.%d", v>>16, v&0xffff, Version>>16, Version&0xffff)
	}
	return nil
}
