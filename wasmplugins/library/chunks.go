package library

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
)

const (
	chunkPrefix = "/proa/wasm/"
	chunkSize   = 512 << 10
	// maxContent is the largest module, in bytes.
	maxContent = 16 << 20
	// maxSignatures is how many signatures are kept with a module's bytes.
	maxSignatures = 16
)

// A chunkStore keeps the bytes of modules, each as chunks below its digest:
//
//	/proa/wasm/<hex digest>/<n>        chunk n, in five digits
//	/proa/wasm/<hex digest>/manifest   written last; without it nothing is there
type chunkStore struct{ store storage.Store }

// A manifest says that all chunks are there.
type manifest struct {
	Size   int64 `json:"size"`
	Chunks int   `json:"chunks"`
	// Touched is the time of the last upload. It makes the collector, which
	// has seen an older one, fail to remove the content.
	Touched int64 `json:"touched"`
	// Signatures are of the content: an earlier version is verified by them.
	Signatures []pluginsv1.ModuleSignature `json:"signatures,omitempty"`
}

var (
	// errNoContent is returned for a digest that was never stored, or of which
	// a part is gone.
	errNoContent = errors.New("the content is not there")
	// errCorrupt is returned for content that is not what it was.
	errCorrupt = errors.New("the stored content is corrupt")
)

func contentDir(digest string) string {
	return chunkPrefix + strings.TrimPrefix(digest, "sha256:") + "/"
}

func chunkKey(digest string, n int) string { return fmt.Sprintf("%s%05d", contentDir(digest), n) }

func manifestKey(digest string) string { return contentDir(digest) + "manifest" }

// parseManifest decodes a manifest, whose figures are then within bounds.
func parseManifest(b []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return manifest{}, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if m.Size < 0 || m.Size > maxContent || int64(m.Chunks) != (m.Size+chunkSize-1)/chunkSize {
		return manifest{}, fmt.Errorf("%w: %d chunks of %d bytes", errCorrupt, m.Chunks, m.Size)
	}
	return m, nil
}

// manifest returns a manifest and its revision, which is set even with
// errCorrupt.
func (c *chunkStore) manifest(ctx context.Context, digest string) (manifest, int64, error) {
	item, err := c.store.Get(ctx, manifestKey(digest), storage.GetOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return manifest{}, 0, fmt.Errorf("content %s: %w", digest, errNoContent)
	}
	if err != nil {
		return manifest{}, 0, fmt.Errorf("content %s: %w", digest, err)
	}
	m, err := parseManifest(item.Value)
	if err != nil {
		return manifest{}, item.Revision, fmt.Errorf("content %s: %w", digest, err)
	}
	return m, item.Revision, nil
}

// signatures returns what is stored of a digest's signatures, without the names
// of keys, which may have changed: none for one that is not there.
func (c *chunkStore) signatures(ctx context.Context, digest string) ([]pluginsv1.ModuleSignature, error) {
	m, _, err := c.manifest(ctx, digest)
	if errors.Is(err, errNoContent) || errors.Is(err, errCorrupt) {
		return nil, nil
	}
	for i := range m.Signatures {
		m.Signatures[i].Key = ""
	}
	return m.Signatures, err
}

// read returns content and checks it against its digest.
func (c *chunkStore) read(ctx context.Context, digest string) ([]byte, error) {
	m, _, err := c.manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, m.Size)
	for n := range m.Chunks {
		b, err := c.chunk(ctx, digest, n)
		if err != nil {
			return nil, err
		}
		if len(out)+len(b) > maxContent {
			break
		}
		out = append(out, b...)
	}
	if got := engine.Digest(out); got != digest {
		return nil, fmt.Errorf("content %s: %w: its digest is %s", digest, errCorrupt, got)
	}
	return out, nil
}

func (c *chunkStore) chunk(ctx context.Context, digest string, n int) ([]byte, error) {
	item, err := c.store.Get(ctx, chunkKey(digest, n), storage.GetOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("content %s: chunk %d: %w", digest, n, errNoContent)
	}
	if err != nil {
		return nil, fmt.Errorf("content %s: chunk %d: %w", digest, n, err)
	}
	return item.Value, nil
}

// write stores content of the given digest and size. Whoever reads sees all of
// it or nothing. What is there already is checked, and written anew if it is
// corrupt.
func (c *chunkStore) write(ctx context.Context, digest string, size int64, r io.Reader) error {
	m, revision, err := c.manifest(ctx, digest)
	if err == nil {
		if _, err = c.read(ctx, digest); err == nil {
			m.Touched = time.Now().UnixNano()
			if err = c.putManifest(ctx, digest, m, revision); err == nil {
				return nil // all of it is there, and stays
			}
			revision = 0
		}
	}
	if err != nil && !mayRewrite(err) {
		return err
	}
	m = manifest{Size: size, Touched: time.Now().UnixNano(), Signatures: m.Signatures}
	for left := size; left > 0; m.Chunks++ {
		b := make([]byte, min(left, chunkSize)) // the store's from now on
		if _, err := io.ReadFull(r, b); err != nil {
			return fmt.Errorf("read the upload: %w", err)
		}
		if err := c.put(ctx, chunkKey(digest, m.Chunks), b); err != nil {
			return fmt.Errorf("store content %s: %w", digest, err)
		}
		left -= int64(len(b))
	}
	return c.putManifest(ctx, digest, m, revision)
}

// mayRewrite reports whether an error says that content is not all there, or is
// being changed.
func mayRewrite(err error) bool {
	return errors.Is(err, errNoContent) || errors.Is(err, errCorrupt) || errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound)
}

// keep stores content, unless it is there, and adds signatures to it. Without
// bytes it must be there.
func (c *chunkStore) keep(ctx context.Context, digest string, wasm []byte, signatures []pluginsv1.ModuleSignature) error {
	for {
		m, revision, err := c.manifest(ctx, digest)
		if err != nil && (wasm == nil || !mayRewrite(err)) {
			return err
		}
		if err != nil {
			if err = c.write(ctx, digest, int64(len(wasm)), bytes.NewReader(wasm)); err != nil && !errors.Is(err, storage.ErrConflict) {
				return err
			}
			continue
		}
		if !m.add(signatures) {
			return nil
		}
		err = c.putManifest(ctx, digest, m, revision)
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
}

// add adds signatures and reports whether there was a new one.
func (m *manifest) add(signatures []pluginsv1.ModuleSignature) bool {
	n := len(m.Signatures)
	for _, s := range signatures {
		same := func(o pluginsv1.ModuleSignature) bool { return o.Key == s.Key && bytes.Equal(o.Signature, s.Signature) }
		if len(m.Signatures) < maxSignatures && !slices.ContainsFunc(m.Signatures, same) {
			m.Signatures = append(m.Signatures, s)
		}
	}
	return len(m.Signatures) > n
}

func (c *chunkStore) putManifest(ctx context.Context, digest string, m manifest, revision int64) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if revision == 0 {
		err = c.put(ctx, manifestKey(digest), b)
	} else {
		_, err = c.store.Update(ctx, manifestKey(digest), b, revision, 0)
	}
	if err != nil {
		return fmt.Errorf("store content %s: %w", digest, err)
	}
	return nil
}

// put sets a key. It writes even what is there already, so that a collector
// that has seen the old revision leaves it.
func (c *chunkStore) put(ctx context.Context, key string, b []byte) error {
	for {
		_, err := c.store.Create(ctx, key, bytes.Clone(b), 0)
		if !errors.Is(err, storage.ErrExists) {
			return err
		}
		item, err := c.store.Get(ctx, key, storage.GetOptions{})
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = c.store.Update(ctx, key, bytes.Clone(b), item.Revision, 0)
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
}
