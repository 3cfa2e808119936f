package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
)

// What is cached of a module stands in a folder of its own, below one for the
// versions of the meter and the compiler:
//
//	modules-<meter>-<compiler>/<hex digest>/module     what Load found out
//	modules-<meter>-<compiler>/<hex digest>/wazero-*/  machine code
//
// The file "module" is a checksum of the rest, the length of the head, the head
// as JSON, and the metered module. It is written last and has the digests of
// the machine code: what has changed since is not executed but compiled again.

// A cacheHead is the JSON in the file "module".
type cacheHead struct {
	Info
	// Files are the SHA-256 of the files with machine code, by their names.
	Files map[string]string
}

// moduleDir is the folder of a module.
func (e *Engine) moduleDir(digest string) string {
	return filepath.Join(e.dir, strings.TrimPrefix(digest, "sha256:"))
}

// Forget removes what the cache on disk has of a module. Code that is loaded
// stays usable.
func (e *Engine) Forget(digest string) error {
	if e.dir == "" || len(digest) != len("sha256:")+2*sha256.Size {
		return nil
	}
	e.compiling.Lock()
	defer e.compiling.Unlock()
	return os.RemoveAll(e.moduleDir(digest))
}

// readCache fills in what is on disk and reports whether all of it is as it was
// written.
func (e *Engine) readCache(digest string, c *Code) bool {
	if e.dir == "" {
		return false
	}
	dir := e.moduleDir(digest)
	b, err := os.ReadFile(filepath.Join(dir, "module"))
	if err != nil {
		return false
	}
	head, metered, ok := parseCache(b)
	if !ok || head.Digest != digest {
		return false
	}
	files, err := machineCode(dir)
	if err != nil || !maps.Equal(files, head.Files) {
		return false
	}
	c.Info, c.metered = head.Info, metered
	return true
}

// parseCache takes the file "module" apart.
func parseCache(b []byte) (head cacheHead, metered []byte, ok bool) {
	if len(b) < sha256.Size+4 {
		return head, nil, false
	}
	sum := sha256.Sum256(b[sha256.Size:])
	if !bytes.Equal(sum[:], b[:sha256.Size]) {
		return head, nil, false // half a file after a crash
	}
	b = b[sha256.Size:]
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if uint64(n) > uint64(len(b)) || json.Unmarshal(b[:n], &head) != nil {
		return cacheHead{}, nil, false
	}
	return head, b[n:], true
}

// machineCode returns the digests of the files that the compiler has written to
// a module's folder.
func machineCode(dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // was only read
	out := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(name, "/") {
			return err
		}
		b, err := root.ReadFile(name)
		sum := sha256.Sum256(b)
		out[name] = hex.EncodeToString(sum[:])
		return err
	})
	return out, err
}

// compile makes the machine code, or reads it from disk if the rest was there.
// Without a disk that can be used it is as good, but lost at the end.
func (e *Engine) compile(ctx context.Context, c *Code) error {
	if e.dir != "" {
		err := e.compileOnDisk(ctx, c)
		if err == nil || ctx.Err() != nil {
			return err
		}
		e.c.Log.Warn().Err(err).Str("digest", c.Digest).Msg("cannot use the cache of compiled modules")
		c.CacheHit = false
	}
	c.cache = wazero.NewCompilationCache()
	return c.build(ctx)
}

func (e *Engine) compileOnDisk(ctx context.Context, c *Code) error {
	dir := e.moduleDir(c.Digest)
	if !c.CacheHit {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	var err error
	if c.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
		return err
	}
	if err = c.build(ctx); err != nil || c.CacheHit {
		return err
	}
	if err = writeCache(dir, c); err != nil { // best effort: the next start compiles again
		err = errors.Join(err, os.RemoveAll(dir))
		e.c.Log.Warn().Err(err).Str("digest", c.Digest).Msg("cannot cache a compiled module")
	}
	return nil
}

func writeCache(dir string, c *Code) error {
	files, err := machineCode(dir)
	if err != nil {
		return err
	}
	head, err := json.Marshal(cacheHead{Info: c.Info, Files: files})
	if err != nil {
		return err
	}
	b := make([]byte, sha256.Size, sha256.Size+4+len(head)+len(c.metered))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = append(append(b, head...), c.metered...)
	sum := sha256.Sum256(b[sha256.Size:])
	copy(b, sum[:])
	return writeFile(filepath.Join(dir, "module"), b)
}

func writeFile(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// cacheDir is the folder for the versions of the meter and the compiler.
func cacheDir(root string, meter int) string {
	return filepath.Join(root, fmt.Sprintf("modules-%d-%s", meter, wazeroVersion()))
}
