package wasmplugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
)

// MediaType is what modules are served as.
const MediaType = "application/wasm"

// ContentHandler serves the content subresource of WasmModules: GET returns the
// module's bytes; PUT stores up to 16 MiB and sets spec.digest to their digest,
// which a query parameter "digest" may demand. Who may call it was decided
// before; request.Of names the module.
func (h *Host) ContentHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st := request.Of(r)
		if st == nil || st.Info.Name == "" {
			writeError(w, apierrors.NewBadRequest("the name of the WasmModule is missing"))
			return
		}
		var err error
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			err = h.getContent(w, r, st.Info.Name)
		case http.MethodPut:
			err = h.putContent(w, r, st.Info.Name)
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

func (h *Host) getContent(w http.ResponseWriter, r *http.Request, name string) error {
	m, err := h.moduleAPI.Get(r.Context(), "", name)
	if err != nil {
		return err
	}
	head := func(size int64, digest string) {
		w.Header().Set("Content-Type", MediaType)
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		w.Header().Set("ETag", strconv.Quote(digest))
		w.WriteHeader(http.StatusOK)
	}
	if len(m.Spec.Code) > 0 {
		head(int64(len(m.Spec.Code)), m.Spec.Digest)
		_, _ = w.Write(m.Spec.Code) // the client is gone
		return nil
	}
	if m.Spec.Digest == "" {
		return apierrors.NewNotFound(moduleResource(), name+"/content")
	}
	man, _, err := h.chunks.manifest(r.Context(), m.Spec.Digest)
	if errors.Is(err, errNoContent) {
		return apierrors.NewNotFound(moduleResource(), name+"/content")
	}
	if err != nil {
		return unavailable(err)
	}
	for n := range man.Chunks {
		b, err := h.chunks.chunk(r.Context(), m.Spec.Digest, n)
		if err != nil {
			if n == 0 {
				return unavailable(err)
			}
			panic(http.ErrAbortHandler) // the answer has begun: cut it short
		}
		if n == 0 {
			head(man.Size, m.Spec.Digest)
		}
		if _, err := w.Write(b); err != nil {
			return nil //nolint:nilerr // the client is gone
		}
	}
	return nil
}

func (h *Host) putContent(w http.ResponseWriter, r *http.Request, name string) error {
	if err := checkUpload(r); err != nil {
		return err
	}
	m, err := h.moduleAPI.Get(r.Context(), "", name)
	if err != nil {
		return err
	}
	if len(m.Spec.Code) > 0 {
		return apierrors.NewConflict(moduleResource(), name, errors.New("the module has its code in spec.code; remove that first"))
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
		if err = h.chunks.write(r.Context(), digest, size, file); err != nil {
			return unavailable(err)
		}
		if m, err = h.setDigest(r.Context(), name, digest); err != nil {
			return err
		}
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

// checkUpload refuses what is no module at first sight.
func checkUpload(r *http.Request) error {
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
	case MediaType, "application/octet-stream", "", "application/json": // the last is what kubectl replace --raw says
	default:
		return status(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "the content of a WasmModule is uploaded as "+MediaType)
	}
	if r.ContentLength > maxContent {
		return tooLarge()
	}
	return nil
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
	if _, err := f.ReadAt(magic[:], 0); err != nil || !bytes.Equal(magic[:], []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, 0, "", apierrors.NewBadRequest("the content is no WebAssembly module of version 1")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, 0, "", apierrors.NewInternalError(fmt.Errorf("store the upload: %w", err))
	}
	return f, size, sum.sum(), nil
}

// setDigest points the module at the uploaded content.
func (h *Host) setDigest(ctx context.Context, name, digest string) (*pluginsv1.WasmModule, error) {
	for {
		m, err := h.moduleAPI.Get(ctx, "", name)
		if err != nil {
			return nil, err
		}
		if m.Spec.Digest == digest {
			return m, nil
		}
		m.Spec.Digest = digest
		m, err = h.moduleAPI.Update(ctx, m)
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
