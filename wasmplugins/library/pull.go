package library

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// A puller fetches modules from registries.
type puller struct {
	transport *http.Transport
	own       bool // nobody else uses the transport
}

func newPuller(c *Config) *puller {
	if c.HTTP != nil {
		return &puller{transport: c.HTTP}
	}
	return &puller{own: true, transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 10 * time.Second}}
}

func (p *puller) close() {
	if p.own {
		p.transport.CloseIdleConnections()
	}
}

const pullPrefix = "/proa/wasm-pulls/"

// A pulled is the record of what a module's image was when it was pulled: a tag
// is not looked up again unless spec.image changes, and not by other servers.
// It is stored below /proa/wasm-pulls/<module>.
type pulled struct {
	UID    types.UID             `json:"uid"`
	Image  pluginsv1.ModuleImage `json:"image"`
	Digest string                `json:"digest"`
}

// of reports whether the record is of the object as it is.
func (p *pulled) of(m *pluginsv1.WasmModule) bool {
	return m.Spec.Image != nil && p.UID == m.UID && apiequality.Semantic.DeepEqual(p.Image, *m.Spec.Image)
}

// pulled returns a module's record, an empty one if there is none, and its
// revision.
func (c *chunkStore) pulled(ctx context.Context, name string) (p pulled, revision int64, err error) {
	item, err := c.store.Get(ctx, pullPrefix+name, storage.GetOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return p, 0, nil
	}
	if err != nil {
		return p, 0, fmt.Errorf("record of the image of %q: %w", name, err)
	}
	if json.Unmarshal(item.Value, &p) != nil {
		p = pulled{} // is replaced
	}
	return p, item.Revision, nil
}

// errElsewhere says that another server has pulled something else.
var errElsewhere = errors.New("another server has pulled the image at another time")

// recordPull notes what a module's image is. Of several servers that pull at once
// the first one decides.
func (c *chunkStore) recordPull(ctx context.Context, m *pluginsv1.WasmModule, digest string) error {
	old, revision, err := c.pulled(ctx, m.Name)
	if err != nil {
		return err
	}
	if old.of(m) {
		if old.Digest != digest {
			return errElsewhere
		}
		return nil
	}
	b, err := json.Marshal(pulled{UID: m.UID, Image: *m.Spec.Image, Digest: digest})
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = c.store.Create(ctx, pullPrefix+m.Name, b, 0)
	} else {
		_, err = c.store.Update(ctx, pullPrefix+m.Name, b, revision, 0)
	}
	if err != nil {
		return fmt.Errorf("record the image of %q: %w", m.Name, err)
	}
	return nil
}

// forgetPull removes the record of a module that has no image any more.
func (c *chunkStore) forgetPull(ctx context.Context, name string, uid types.UID) error {
	p, revision, err := c.pulled(ctx, name)
	if err != nil || revision == 0 || p.UID != uid {
		return err
	}
	_, err = c.store.Delete(ctx, pullPrefix+name, revision)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrConflict) {
		return nil
	}
	return err
}

// fetchImage returns the code of an image, from the store if it was pulled
// before.
func (l *Library) fetchImage(ctx context.Context, m *pluginsv1.WasmModule, next *module, pull bool) ([]byte, *Problem) {
	record, _, err := l.chunks.pulled(ctx, m.Name)
	if err != nil {
		return nil, contentProblem(err)
	}
	next.digest = m.Spec.Digest
	if next.digest == "" && record.of(m) {
		next.digest = record.Digest
	}
	if next.digest != "" {
		if l.loaded(next.digest) {
			return nil, nil
		}
		wasm, err := l.chunks.read(ctx, next.digest)
		if err == nil || !errors.Is(err, errNoContent) && !errors.Is(err, errCorrupt) {
			return wasm, asProblem(err)
		}
	}
	if !pull {
		return nil, pulling(m)
	}
	wasm, problem := l.pull(ctx, m)
	if problem != nil {
		return nil, problem
	}
	got := engine.Digest(wasm)
	switch {
	case m.Spec.Digest != "" && got != m.Spec.Digest:
		return nil, problemf(ReasonDigestMismatch, "the image %s has code with the digest %s, not %s", m.Spec.Image.Reference, got, m.Spec.Digest).finally()
	case next.digest != "" && got != next.digest:
		return nil, problemf(ReasonDigestMismatch, "the image %s was pulled with the digest %s, which is lost, and has %s now; change spec.image to take that", m.Spec.Image.Reference, next.digest, got).finally()
	}
	next.digest = got
	return wasm, nil
}

func asProblem(err error) *Problem {
	if err == nil {
		return nil
	}
	return contentProblem(err)
}

func (l *Library) loaded(digest string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shared[digest] != nil
}

// pull tries once to pull a module's image.
func (l *Library) pull(ctx context.Context, m *pluginsv1.WasmModule) ([]byte, *Problem) {
	image := m.Spec.Image
	ref, err := parseReference(image.Reference)
	if err != nil {
		return nil, problemf(ReasonPullFailed, "spec.image.%v", err).finally()
	}
	l.announce(m)
	ctx, cancel := context.WithTimeout(ctx, l.c.PullTimeout)
	defer cancel()
	wasm, err := l.pullOnce(ctx, image, ref)
	l.metrics.pulled(m.Name, err)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("took longer than %v", l.c.PullTimeout)
		}
		p := problemf(ReasonPullFailed, "pull %s: %v", image.Reference, err)
		p.cause = err
		return nil, p
	}
	l.c.Log.Info().Str("module", m.Name).Str("image", image.Reference).Int("bytes", len(wasm)).Msg("module pulled")
	return wasm, nil
}

// announce has the status of a new module say what takes so long. One that has
// code goes on with that.
func (l *Library) announce(m *pluginsv1.WasmModule) {
	l.mu.Lock()
	if l.known[m.Name] == nil {
		l.known[m.Name] = &module{uid: m.UID, generation: m.Generation, problem: pulling(m)}
	}
	l.mu.Unlock()
	l.status.Add(m.Name)
}

func pulling(m *pluginsv1.WasmModule) *Problem {
	return problemf(ReasonPulling, "the image %s is being pulled", m.Spec.Image.Reference)
}

func (l *Library) pullOnce(ctx context.Context, image *pluginsv1.ModuleImage, ref reference) ([]byte, error) {
	var creds credentials
	if s := image.PullSecret; s != nil {
		secret, err := client.For[*corev1.Secret](l.c.REST).Get(ctx, s.Namespace, s.Name)
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		if secret.Type != corev1.SecretTypeDockerConfigJson {
			return nil, fmt.Errorf("pull secret %s/%s: its type is %q, not %q", s.Namespace, s.Name, secret.Type, corev1.SecretTypeDockerConfigJson)
		}
		if creds, err = parseCredentials(secret.Data[corev1.DockerConfigJsonKey], ref); err != nil {
			return nil, fmt.Errorf("pull secret %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	return newSession(l.puller.transport, ref, image.PlainHTTP, creds).pull(ctx)
}

// checkMagic refuses what is no module at first sight.
func checkMagic(b []byte) error {
	if !bytes.HasPrefix(b, []byte("\x00asm\x01\x00\x00\x00")) {
		return errors.New("the content is no WebAssembly module of version 1")
	}
	return nil
}
