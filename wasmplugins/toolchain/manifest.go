package toolchain

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/proa-project/proa/wasmplugins/abi"
)

// header is what every module begins with.
const header = "\x00asm\x01\x00\x00\x00"

// addManifest puts the manifest of a file into the module of another.
func addManifest(file, module string) error {
	manifest, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(module)
	if err != nil {
		return err
	}
	if wasm, err = WithManifest(wasm, manifest); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(module, wasm, 0o644) //nolint:gosec // like a compiler's output
}

// WithManifest returns the module with the manifest in place of the one that it
// may have.
func WithManifest(wasm, manifest []byte) ([]byte, error) {
	if _, err := abi.ParseManifest(manifest); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, manifest); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(wasm, []byte(header)) {
		return nil, errors.New("not a WebAssembly module")
	}
	out := []byte(header)
	for rest := wasm[len(header):]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) { //nolint:gosec // a length is not negative
			return nil, errors.New("a section of the module is cut off")
		}
		section := rest[:1+n+int(size)] //nolint:gosec // checked above
		rest = rest[len(section):]
		if section[0] == 0 && isManifest(section[1+n:]) {
			continue
		}
		out = append(out, section...)
	}
	body := binary.AppendUvarint(nil, uint64(len(abi.ManifestSection)))
	body = append(append(body, abi.ManifestSection...), compact.Bytes()...)
	out = binary.AppendUvarint(append(out, 0), uint64(len(body)))
	return append(out, body...), nil
}

// isManifest reports whether the content of a custom section is a manifest's.
func isManifest(b []byte) bool {
	size, n := binary.Uvarint(b)
	return n > 0 && size == uint64(len(abi.ManifestSection)) && bytes.HasPrefix(b[n:], []byte(abi.ManifestSection))
}
