package schedwasm

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// FuzzWords: a list of texts is read as it was written, and what has no end is
// left out.
func FuzzWords(f *testing.F) {
	f.Add([]byte("a\x00b\x00"))
	f.Add([]byte("a\x00b"))
	f.Add([]byte("\x00\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list := words(b)
		var again []byte
		for _, w := range list {
			if strings.Contains(w, "\x00") {
				t.Errorf("%q has the word %q", b, w)
			}
			again = append(append(again, w...), 0)
		}
		if !bytes.HasPrefix(b, again) || bytes.IndexByte(b[len(again):], 0) >= 0 {
			t.Errorf("%q is %q", b, list)
		}
	})
}

// FuzzStatus: whatever a guest returns, a pod passes, is refused with a reason,
// or the guest has failed.
func FuzzStatus(f *testing.F) {
	for code := range uint32(8) {
		f.Add(code, "", uint32(0))
		f.Add(code, "no", uint32(10))
	}
	f.Add(^uint32(0), "x", ^uint32(0))
	f.Fuzz(func(t *testing.T, code uint32, reason string, kind uint32) {
		g := &Guest{c: Config{Name: "p"}}
		c := &Cycle{g: g}
		for fn := range functions {
			r, err := c.rejection(fn, status{code, reason})
			passes := code == codeSuccess || code == codeSkip
			switch {
			case err != nil && (engine.ReasonOf(err) != engine.BadReply || r != nil || passes):
				t.Errorf("%s, status %d: %+v, %v", functions[fn].name, code, r, err)
			case err == nil && r == nil && !passes:
				t.Errorf("%s, status %d passes", functions[fn].name, code)
			case r != nil && (len(r.Reasons) != 1 || r.Reasons[0] == "" || r.Unresolvable != (code == codeUnresolvable)):
				t.Errorf("%s, status %d: %+v", functions[fn].name, code, r)
			}
			var refusal *RefusalError
			judged := g.judge(fn, code, reason)
			if errors.As(judged, &refusal) != (r != nil) || (judged == nil) != (err == nil && r == nil) {
				t.Errorf("%s, status %d is judged as %v", functions[fn].name, code, judged)
			}
		}
		if all := ^framework.Event(0); kind == kindAny && eventsOf(kind, code) != all {
			t.Errorf("any change of anything is %v", eventsOf(kind, code))
		}
	})
}
