package client

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// TestFrames_property cuts a stream into pieces of any size: the frames come
// out the same.
func TestFrames_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.OneOf(rapid.StringMatching(`[a-z{}"]{1,20}`), rapid.Just(strings.Repeat("x", 5000)))).Draw(t, "lines")
		stream := strings.Join(lines, "\n")
		if len(lines) > 0 {
			stream += "\n"
		}
		var src io.Reader = strings.NewReader(stream)
		switch rapid.IntRange(0, 2).Draw(t, "reader") {
		case 1:
			src = iotest.OneByteReader(src)
		case 2:
			src = iotest.DataErrReader(iotest.HalfReader(src))
		}
		f := frames{src: src}
		for i, want := range lines {
			got, err := f.next()
			if err != nil || string(got) != want {
				t.Fatalf("frame %d is %q, %v, want %q", i, got, err, want)
			}
		}
		if _, err := f.next(); err != io.EOF { //nolint:errorlint // the contract is the value
			t.Fatalf("end is %v", err)
		}
	})
}

func TestFrames_cutShort(t *testing.T) {
	f := frames{src: strings.NewReader("a\nb")}
	if got, err := f.next(); string(got) != "a" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := f.next(); err != io.ErrUnexpectedEOF { //nolint:errorlint // the contract is the value
		t.Errorf("got %v", err)
	}
}

func TestSplitFrame(t *testing.T) {
	for _, tc := range []struct{ name, frame, typ, object string }{
		{"usual", `{"type":"ADDED","object":{"a":1}}`, "ADDED", `{"a":1}`},
		{"spaces", `{ "type": "DELETED", "object": {"a":1} }`, "DELETED", `{"a":1}`},
		{"other order", `{"object":{"a":1},"type":"MODIFIED"}`, "MODIFIED", `{"a":1}`},
		{"unknown type", `{"type":"NEW","object":{}}`, "NEW", `{}`},
	} {
		typ, obj, err := splitFrame([]byte(tc.frame))
		if err != nil || string(typ) != tc.typ || !bytes.Equal(obj, []byte(tc.object)) {
			t.Errorf("%s: %q %q %v", tc.name, typ, obj, err)
		}
	}
	if _, _, err := splitFrame([]byte(`{"type":`)); err == nil {
		t.Error("half a frame: no error")
	}
}

func BenchmarkFrames(b *testing.B) {
	line := strings.Repeat("x", 1000) + "\n"
	f := frames{src: endless{line}}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.next(); err != nil {
			b.Fatal(err)
		}
	}
}

type endless struct{ s string }

func (e endless) Read(p []byte) (int, error) { return copy(p, e.s), nil }
