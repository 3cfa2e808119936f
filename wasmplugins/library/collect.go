package library

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
)

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

// collect removes content that nothing has named for OrphanGrace.
func (l *Library) collect(ctx context.Context) {
	orphans := map[string]time.Time{} // when it was first seen without a module
	t := time.NewTicker(max(l.c.OrphanGrace/2, 10*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		l.forgetOld(false)
		if err := l.collectOnce(ctx, orphans, time.Now()); err != nil && ctx.Err() == nil {
			l.c.Log.Warn().Err(err).Msg("cannot remove unused plugin code")
		}
	}
}

func (l *Library) collectOnce(ctx context.Context, orphans map[string]time.Time, now time.Time) error {
	all, err := l.chunks.list(ctx)
	if err != nil {
		return err
	}
	named := l.named()
	seen := map[string]bool{}
	for _, s := range all {
		seen[s.digest] = true
		since, known := orphans[s.digest]
		switch {
		case named[s.digest]:
			delete(orphans, s.digest)
		case !known:
			orphans[s.digest] = now
		case now.Sub(since) >= l.c.OrphanGrace:
			if err := l.chunks.remove(ctx, s); err != nil {
				return err
			}
			if err := l.c.Engine.Forget(s.digest); err != nil {
				l.c.Log.Warn().Err(err).Str("digest", s.digest).Msg("cannot remove compiled plugin code")
			}
			l.c.Log.Info().Str("digest", s.digest).Msg("unused plugin code removed")
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

// named returns the digests that modules have, had and want, and those of code
// that is in use here. Digests that plugins pin are among a module's versions.
func (l *Library) named() map[string]bool {
	out := map[string]bool{}
	for _, m := range l.modules.List(labels.Everything()) {
		out[m.Spec.Digest], out[m.Status.Digest] = true, true
		if len(m.Spec.Code) > 0 {
			out[engine.Digest(m.Spec.Code)] = true
		}
		for _, v := range m.Status.Versions {
			out[v.Digest] = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.known {
		out[m.digest] = true
	}
	for digest := range l.shared {
		out[digest] = true
	}
	return out
}
