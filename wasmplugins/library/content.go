package library

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// MediaType is what modules are served as.
const MediaType = "application/wasm"

// ContentHandler serves the content subresource of WasmModules: GET returns the
// module's bytes; PUT stores up to 16 MiB and sets spec.digest to their digest,
// which a query parameter "digest" may demand. With a parameter "signature", in
// base64, and perhaps "key", the same write sets spec.signatures. Who may call
// it was decided before; request.Of names the module.
func (l *Library) ContentHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st := request.Of(r)
		if st == nil || st.Info.Name == "" {
			writeError(w, apierrors.NewBadRequest("the name of the WasmModule is missing"))
			return
		}
		var err error
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			err = l.getContent(w, r, st.Info.Name)
		case http.MethodPut:
			err = l.putContent(w, r, st.Info.Name)
		default:
			err = apierrors.NewMethodNotSupported(moduleResource(), r.Method)
		}
		if err != nil {
			writeError(w, err)
		}
	})
}

func moduleResource() schema.GroupResource {
	return schema.GroupResource{Group: pluginsv1.GroupName, Resource: "wasmmodules"}
}

func (l *Library) getContent(w http.ResponseWriter, r *http.Request, name string) error {
	m, err := l.api.Get(r.Context(), "", name)
	if err != nil {
		return err
	}
	digest, err := wantedContent(m, r.URL.Query().Get("digest"))
	if err != nil {
		return err
	}
	if len(m.Spec.Code) > 0 && engine.Digest(m.Spec.Code) == digest {
		head(w, int64(len(m.Spec.Code)), digest)
		_, _ = w.Write(m.Spec.Code) // without effect once the client is gone
		return nil
	}
	man, _, err := l.chunks.manifest(r.Context(), digest)
	if errors.Is(err, errNoContent) {
		return apierrors.NewNotFound(moduleResource(), name+"/content")
	}
	if err != nil {
		return unavailable(err)
	}
	return l.sendChunks(w, r, man, digest)
}

// wantedContent returns the digest of the version that a client asks for: the
// current one for "".
func wantedContent(m *pluginsv1.WasmModule, digest string) (string, error) {
	current := m.Spec.Digest
	switch {
	case len(m.Spec.Code) > 0:
		current = engine.Digest(m.Spec.Code)
	case current == "" && m.Spec.Image != nil:
		current = m.Status.Digest
	}
	if digest == "" || digest == current {
		digest = current
	} else if !slices.ContainsFunc(m.Status.Versions, func(v pluginsv1.ModuleVersion) bool { return v.Digest == digest }) {
		return "", apierrors.NewNotFound(moduleResource(), m.Name+"/content?digest="+digest)
	}
	if digest == "" {
		return "", apierrors.NewNotFound(moduleResource(), m.Name+"/content")
	}
	return digest, nil
}

func head(w http.ResponseWriter, size int64, digest string) {
	w.Header().Set("Content-Type", MediaType)
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.Header().Set("ETag", strconv.Quote(digest))
	w.WriteHeader(http.StatusOK)
}

// sendChunks sends stored content. It holds back the last chunk if the content
// turns out to be corrupt, so that the client gets too little instead of
// something wrong.
func (l *Library) sendChunks(w http.ResponseWriter, r *http.Request, man manifest, digest string) error {
	sum := newHasher()
	for n := range man.Chunks {
		b, err := l.chunks.chunk(r.Context(), digest, n)
		if err == nil {
			_, _ = sum.Write(b) // a hash takes everything
			if n == man.Chunks-1 && sum.digest() != digest {
				err = fmt.Errorf("content %s: %w", digest, errCorrupt)
			}
		}
		if err != nil {
			if n == 0 {
				return unavailable(err)
			}
			panic(http.ErrAbortHandler) // the answer has begun: cut it short
		}
		if n == 0 {
			head(w, man.Size, digest)
		}
		if _, err := w.Write(b); err != nil {
			return nil //nolint:nilerr // the client is gone
		}
	}
	return nil
}

func (l *Library) putContent(w http.ResponseWriter, r *http.Request, name string) error {
	signature, err := checkUpload(r)
	if err != nil {
		return err
	}
	m, err := l.api.Get(r.Context(), "", name)
	if err != nil {
		return err
	}
	switch {
	case len(m.Spec.Code) > 0:
		return apierrors.NewConflict(moduleResource(), name, errors.New("the module has its code in spec.code; remove that first"))
	case m.Spec.Image != nil:
		return apierrors.NewConflict(moduleResource(), name, errors.New("the module has its code in spec.image; remove that first"))
	}
	file, size, digest, err := receive(r)
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()           // was written to only here
		_ = os.Remove(file.Name()) // is in a directory for such files
	}()
	if want := r.URL.Query().Get("digest"); want != "" && want != digest {
		return apierrors.NewBadRequest(fmt.Sprintf("the uploaded content has the digest %s, not %s", digest, want))
	}
	if r.URL.Query().Get("dryRun") == "" {
		if err = l.chunks.write(r.Context(), digest, size, file); err != nil {
			return unavailable(err)
		}
		if m, err = l.point(r.Context(), name, digest, signature); err != nil {
			return err
		}
		l.work.Add(name) // the object may be as before, but the content was missing
	} else {
		m.Spec.Digest = digest
	}
	body, err := api.Encode(m)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(body, '\n')) // without effect once the client is gone
	return nil
}

// checkUpload refuses what is no module at first sight, and returns the
// signature that comes with it.
func checkUpload(r *http.Request) (*pluginsv1.ModuleSignature, error) {
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
	case MediaType, "application/octet-stream", "", "application/json": // the last is what kubectl replace --raw says
	default:
		return nil, status(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "the content of a WasmModule is uploaded as "+MediaType)
	}
	if r.ContentLength > maxContent {
		return nil, tooLarge()
	}
	q := r.URL.Query()
	if !q.Has("signature") {
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(q.Get("signature"))
	if err != nil || len(b) == 0 {
		return nil, apierrors.NewBadRequest("the parameter signature must be a signature in base64")
	}
	return &pluginsv1.ModuleSignature{Key: q.Get("key"), Signature: b}, nil
}

func tooLarge() error {
	return status(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, fmt.Sprintf("the content is larger than the limit of %d bytes", maxContent))
}

// receive puts the body into a file, which is at its beginning afterwards.
func receive(r *http.Request) (file *os.File, size int64, digest string, err error) {
	f, err := os.CreateTemp("", "proa-upload-")
	if err != nil {
		return nil, 0, "", apierrors.NewInternalError(fmt.Errorf("store the upload: %w", err))
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // is thrown away
			_ = os.Remove(f.Name()) // is in a directory for such files
		}
	}()
	sum := newHasher()
	size, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(r.Body, maxContent+1))
	if err != nil {
		return nil, 0, "", apierrors.NewBadRequest("the upload was cut short: " + err.Error())
	}
	if size > maxContent {
		return nil, 0, "", tooLarge()
	}
	var magic [8]byte
	n, err := f.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, "", apierrors.NewInternalError(fmt.Errorf("store the upload: %w", err))
	}
	if err := checkMagic(magic[:n]); err != nil {
		return nil, 0, "", apierrors.NewBadRequest(err.Error())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, 0, "", apierrors.NewInternalError(fmt.Errorf("store the upload: %w", err))
	}
	return f, size, sum.digest(), nil
}

// point points the module at the uploaded content.
func (l *Library) point(ctx context.Context, name, digest string, signature *pluginsv1.ModuleSignature) (*pluginsv1.WasmModule, error) {
	for {
		m, err := l.api.Get(ctx, "", name)
		if err != nil {
			return nil, err
		}
		signed := signature == nil || slices.EqualFunc(m.Spec.Signatures, []pluginsv1.ModuleSignature{*signature},
			func(a, b pluginsv1.ModuleSignature) bool {
				return a.Key == b.Key && bytes.Equal(a.Signature, b.Signature)
			})
		if m.Spec.Digest == digest && signed {
			return m, nil
		}
		m.Spec.Digest = digest
		if signature != nil {
			m.Spec.Signatures = []pluginsv1.ModuleSignature{*signature}
		}
		m, err = l.api.Update(ctx, m)
		if !apierrors.IsConflict(err) {
			return m, err
		}
	}
}

func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// unavailable is the answer to an error of the store.
func unavailable(err error) error {
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrClosed) || errors.Is(err, context.DeadlineExceeded) {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	return apierrors.NewInternalError(err)
}

// writeError answers with the Status of an error.
func writeError(w http.ResponseWriter, err error) {
	var e apierrors.APIStatus
	if !errors.As(err, &e) {
		e = apierrors.NewInternalError(err)
	}
	st := e.Status()
	st.Kind, st.APIVersion = "Status", "v1"
	body, err := json.Marshal(&st)
	if err != nil { // a Status is strings and numbers
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(st.Code))
	_, _ = w.Write(append(body, '\n')) // without effect once the client is gone
}

// A hasher tells the digest of what is written to it.
type hasher struct{ hash.Hash }

func newHasher() hasher { return hasher{sha256.New()} }

func (h hasher) digest() string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }
