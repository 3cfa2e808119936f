package httpapi

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage"
)

// flushFrom is how many bytes of events are gathered before they are written,
// even if there are more to come.
const flushFrom = 64 << 10

// frames writes the events of a watch, several with one write where there are
// several. It belongs to one goroutine.
type frames struct {
	wt *watching
	w  http.ResponseWriter // nil if send is set
	// send takes the place of w where each event is a message of its own.
	send func(event []byte) error

	// buf is nil while there is nothing in it: most watches idle most of the
	// time, and there may be thousands.
	buf     *[]byte
	started bool // the header is written
	broken  bool // the client is gone
}

func newFrames(w http.ResponseWriter, wt *watching) *frames {
	return &frames{wt: wt, w: w}
}

// open returns the buffer.
func (f *frames) open() []byte {
	if f.buf == nil {
		f.buf = buffers.get()
	}
	return *f.buf
}

// release empties the buffer and gives it back.
func (f *frames) release() {
	if f.buf != nil {
		buffers.put(f.buf)
		f.buf = nil
	}
}

// start writes the header, once.
func (f *frames) start() {
	if f.started {
		return
	}
	f.started = true
	if f.w == nil {
		return
	}
	h := f.w.Header()
	h["Content-Type"] = contentTypes[formatJSON]
	if f.wt.out.format == formatProtobuf {
		h.Set("Content-Type", api.MediaProtobuf+";stream=watch")
	}
	h["Cache-Control"] = noCache
	f.w.WriteHeader(http.StatusOK)
	if fl, ok := f.w.(http.Flusher); ok {
		fl.Flush()
	}
}

// add adds an event. It returns false if the client is gone.
func (f *frames) add(kind string, item *storage.Item) bool {
	if f.broken {
		return false
	}
	value, err := f.wt.c.own(f.wt.ctx, item)
	if err == nil {
		err = f.frame(kind, document{value: value})
	}
	if err != nil {
		f.fail(err)
		return false
	}
	if f.buf != nil && len(*f.buf) >= flushFrom {
		return f.flush()
	}
	return true
}

// frame puts an event into the buffer.
func (f *frames) frame(kind string, d document) error {
	out := f.wt.out
	if out.plain() {
		f.json(kind, d.value)
		return nil
	}
	if out.format == formatProtobuf {
		object, err := f.wt.c.protobufOf(out, d)
		if err != nil {
			return err
		}
		return f.protobuf(kind, object)
	}
	object, err := f.wt.c.encode(out, d)
	if err != nil {
		return err
	}
	f.json(kind, object)
	return nil
}

func (f *frames) json(kind string, object []byte) {
	b := append(f.open(), `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","object":`...)
	b = append(b, object...)
	*f.buf = append(b, "}\n"...)
	f.message()
}

func (f *frames) protobuf(kind string, object []byte) error {
	e := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}
	raw, err := e.Marshal()
	if err != nil {
		return err
	}
	b := f.open()
	if f.send == nil {
		b = binary.BigEndian.AppendUint32(b, uint32(len(raw))) //nolint:gosec // an object is smaller
	}
	*f.buf = append(b, raw...)
	f.message()
	return nil
}

// message sends the buffer if each event is a message of its own.
func (f *frames) message() {
	if f.send == nil || f.broken {
		return
	}
	if err := f.send(*f.buf); err != nil {
		f.broken = true
	}
	f.release()
}

// flush writes what is in the buffer. It returns false if the client is gone.
func (f *frames) flush() bool {
	if f.broken || f.buf == nil {
		return !f.broken
	}
	_, err := f.w.Write(*f.buf)
	f.release()
	if err != nil {
		f.broken = true
		return false
	}
	if fl, ok := f.w.(http.Flusher); ok {
		fl.Flush()
	}
	return true
}

// bookmark tells the client how far it has seen everything.
func (f *frames) bookmark(revision int64, initialEnd bool) {
	obj := f.wt.c.bookmarkOf(revision, initialEnd)
	value, err := api.Encode(obj)
	if err == nil {
		err = f.bookmarkFrame(document{value: value, object: obj})
	}
	if err != nil {
		f.fail(err)
	}
}

func (f *frames) bookmarkFrame(d document) error {
	out := f.wt.out
	if out.shape != asTable {
		return f.frame("BOOKMARK", d)
	}
	t, err := f.wt.c.table(out, listMeta{version: d.object.GetResourceVersion()}, nil)
	if err != nil {
		return err
	}
	f.json("BOOKMARK", t)
	return nil
}

// fail ends the watch with an error.
func (f *frames) fail(err error) {
	if f.broken {
		return
	}
	st := statusOf(err)
	st.Kind, st.APIVersion = "Status", "v1"
	if f.wt.out.format == formatProtobuf {
		if raw, err := st.Marshal(); err == nil {
			if object, err := envelope("v1", "Status", raw); err == nil {
				f.protobuf("ERROR", object) //nolint:errcheck // the watch ends anyway
			}
		}
	} else if object, err := json.Marshal(st); err == nil {
		f.json("ERROR", object)
	}
	f.flush()
	f.broken = true
}

func setResourceVersion(obj api.Object, revision int64) {
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
}
