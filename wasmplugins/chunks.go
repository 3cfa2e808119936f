package wasmplugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
)

const (
	chunkPrefix = "/proa/wasm/"
	chunkSize   = 512 << 10
	// maxContent is the largest module, in bytes.
	maxContent = 16 << 20
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
}

// errNoContent is returned for a digest that was never uploaded.
var errNoContent = errors.New("the content is not there")

func contentDir(digest string) string {
	return chunkPrefix + strings.TrimPrefix(digest, "sha256:") + "/"
}

func chunkKey(digest string, n int) string { return fmt.Sprintf("%s%05d", contentDir(digest), n) }

func manifestKey(digest string) string { return contentDir(digest) + "manifest" }

func (c *chunkStore) manifest(ctx context.Context, digest string) (manifest, int64, error) {
	var m manifest
	item, err := c.store.Get(ctx, manifestKey(digest), storage.GetOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return m, 0, fmt.Errorf("content %s: %w", digest, errNoContent)
	}
	if err != nil {
		return m, 0, fmt.Errorf("content %s: %w", digest, err)
	}
	if err := json.Unmarshal(item.Value, &m); err != nil {
		return m, 0, fmt.Errorf("content %s: %w", digest, err)
	}
	return m, item.Revision, nil
}

// read returns content and checks it against its digest.
func (c *chunkStore) read(ctx context.Context, digest string) ([]byte, error) {
	m, _, err := c.manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, min(m.Size, maxContent))
	for n := range m.Chunks {
		b, err := c.chunk(ctx, digest, n)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	if got := engine.Digest(out); got != digest {
		return nil, fmt.Errorf("content %s: what is stored has the digest %s", digest, got)
	}
	return out, nil
}

func (c *chunkStore) chunk(ctx context.Context, digest string, n int) ([]byte, error) {
	item, err := c.store.Get(ctx, chunkKey(digest, n), storage.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("content %s: chunk %d: %w", digest, n, err)
	}
	return item.Value, nil
}

// write stores content of the given digest and size. Whoever reads sees all of
// it or nothing.
func (c *chunkStore) write(ctx context.Context, digest string, size int64, r io.Reader) error {
	m, revision, err := c.manifest(ctx, digest)
	if err == nil {
		m.Touched = time.Now().UnixNano()
		if err = c.putManifest(ctx, digest, m, revision); err == nil {
			return nil // all of it is there, and stays
		}
		revision = 0
	}
	if err != nil && !errors.Is(err, errNoContent) && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	m = manifest{Size: size, Touched: time.Now().UnixNano()}
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
		_, err := c.store.Create(ctx, key, b, 0)
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
		_, err = c.store.Update(ctx, key, b, item.Revision, 0)
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
}

// stored is what is below one digest.
type stored struct {
	digest string
	items  []storage.Item // the manifest first
}

// list returns what is stored, by digest, without values.
func (c *chunkStore) list(ctx context.Context) ([]stored, error) {
	l, err := c.store.List(ctx, chunkPrefix, storage.ListOptions{KeysOnly: true})
	if err != nil {
		return nil, fmt.Errorf("list stored content: %w", err)
	}
	var out []stored
	for _, item := range l.Items {
		hexed, _, ok := strings.Cut(strings.TrimPrefix(item.Key, chunkPrefix), "/")
		if !ok {
			continue
		}
		digest := "sha256:" + hexed
		if len(out) == 0 || out[len(out)-1].digest != digest {
			out = append(out, stored{digest: digest})
		}
		s := &out[len(out)-1]
		item.Value = nil
		if item.Key == manifestKey(digest) {
			s.items = append([]storage.Item{item}, s.items...)
		} else {
			s.items = append(s.items, item)
		}
	}
	return out, nil
}

// remove deletes what was seen of a digest, the manifest first. If an upload has
// touched it since, it stays.
func (c *chunkStore) remove(ctx context.Context, s stored) error {
	for _, item := range s.items {
		_, err := c.store.Delete(ctx, item.Key, item.Revision)
		switch {
		case errors.Is(err, storage.ErrConflict):
			return nil
		case err != nil && !errors.Is(err, storage.ErrNotFound):
			return fmt.Errorf("remove content %s: %w", s.digest, err)
		}
	}
	return nil
}

// collect removes content that no module has named for OrphanGrace.
func (h *Host) collect(ctx context.Context) {
	orphans := map[string]time.Time{} // when it was first seen without a module
	t := time.NewTicker(max(h.c.OrphanGrace/2, 10*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := h.collectOnce(ctx, orphans, time.Now()); err != nil && ctx.Err() == nil {
			h.c.Log.Warn().Err(err).Msg("cannot remove unused plugin code")
		}
	}
}

func (h *Host) collectOnce(ctx context.Context, orphans map[string]time.Time, now time.Time) error {
	named := map[string]bool{}
	for _, m := range h.modules.List(labels.Everything()) {
		named[m.Spec.Digest] = true
	}
	all, err := h.chunks.list(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range all {
		seen[s.digest] = true
		since, known := orphans[s.digest]
		switch {
		case named[s.digest]:
			delete(orphans, s.digest)
		case !known:
			orphans[s.digest] = now
		case now.Sub(since) >= h.c.OrphanGrace:
			if err := h.chunks.remove(ctx, s); err != nil {
				return err
			}
			h.c.Log.Info().Str("digest", s.digest).Msg("unused plugin code removed")
			delete(orphans, s.digest)
		}
	}
	for d := range orphans {
		if !seen[d] {
			delete(orphans, d)
		}
	}
	return nil
}

// A hasher tells the digest of what is written to it.
type hasher struct {
	io.Writer
	sum func() string
}

func newHasher() hasher {
	h := sha256.New()
	return hasher{h, func() string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }}
}
