package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// caller is a guest that makes a host call, config.read with {"name":"c"}, and
// refuses everything with the reply as the status.
func caller() []byte {
	const op, request = "config.read", `{"name":"c"}`
	const before, after = `{"allowed":false,"status":`, `}`
	m := &Module{}
	call := m.Import("proa", "call", []byte{I32, I32, I32, I32}, []byte{I32})
	read := m.Import("proa", "read", []byte{I32, I32}, []byte{I32})
	Admission(m, before)
	m.Data(100, []byte(op))
	m.Data(200, []byte(request))
	at := int32(ReplyAt + len(before))
	// Local 2 is the length of the reply.
	m.Func("proa_admit", []byte{I32, I32}, []byte{I64}, []byte{I32},
		Const32(100), Const32(int32(len(op))), Const32(200), Const32(int32(len(request))), Call(call), Set(2),
		Const32(at), Get(2), Call(read), Drop,
		Const32(at), Get(2), Add32, Const32(int32(after[0])), Store32,
		Get(2), Const32(int32(len(before)+len(after))), Add32, Op(0xad), Const64(ReplyAt<<32), Op(0x84)) // i64.extend_i32_u, i64.or
	return m.Bytes()
}

func writeFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHostCalls: a case says what the plugin's host calls are answered.
func TestHostCalls(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	wasm := writeFile(t, "p.wasm", caller())
	for _, tc := range []struct{ cases, want string }{
		{`{host: [{call: config.read, reply: {message: mocked}}], want: {allowed: false, message: mocked}}`, "ok"},
		{`{host: [{call: config.read, request: {name: other}, reply: {}}, {call: config.read, request: {name: c}, reply: {message: "2"}}], want: {message: "2"}}`, "ok"},
		{`{host: [{call: config.read, request: {name: other}, reply: {}}], want: {}}`, "CapabilityDenied: called \"config.read\" with {\"name\":\"c\"}, for which the case has no answer"},
		{`{host: [{call: config.read, denied: true}], want: {failure: CapabilityDenied}}`, "ok"},
		{`{want: {failure: CapabilityDenied}}`, "ok"},
		{`{host: [{call: config.read, error: "no"}], want: {failure: Trapped}}`, "FAIL"}, // the guest takes the error for a length
	} {
		out, err := run(t, "test", wasm, writeFile(t, "cases.yaml", []byte(tc.cases)))
		if !strings.Contains(out, tc.want) || (err == nil) != (tc.want == "ok") {
			t.Errorf("%s: %v\n%s", tc.cases, err, out)
		}
	}
	out, err := run(t, "bench", wasm, writeFile(t, "cases.yaml", []byte(`{name: calls, request: {}, host: [{call: config.read, reply: {}}]}`)), "--for", "5ms")
	if err != nil || !strings.Contains(out, "host calls") || !strings.Contains(out, "  1") {
		t.Errorf("%v\n%s", err, out)
	}
}

const recording = `{"operation":"CREATE","resource":{"resource":"pods"},"namespace":"shop","name":"a","userInfo":{"username":"ann"},"object":{"metadata":{"labels":{"team":"a"}}}}

{"operation":"UPDATE","resource":{"resource":"pods"},"namespace":"shop","name":"b","object":{"metadata":{}},"oldObject":null}
`

// TestRecording: a recording's requests are cases that accept every answer.
func TestRecording(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	file := writeFile(t, "r.jsonl", []byte(recording))
	out, err := run(t, "test", writeFile(t, "p.wasm", Fixed(`{"allowed":false}`)), file)
	if err != nil || !strings.Contains(out, "ok    CREATE pods shop/a by ann") || !strings.Contains(out, "ok    UPDATE pods shop/b") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, "test", writeFile(t, "p.wasm", Fixed(`{"allowed":1}`)), file)
	if err == nil || !strings.Contains(out, "BadReply") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, bad := range []string{"{", "{}", "[]"} {
		if out, err := run(t, "test", "none.wasm", writeFile(t, "r.jsonl", []byte(bad))); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v\n%s", bad, err, out)
		}
	}
}

// TestOtherPoints: the input and the reply of another point are JSON.
func TestOtherPoints(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const reply = `{"decision":"Deny","reason":"no","more":[1,{"a":2}]}`
	m := &Module{}
	Admission(m, reply)
	m.Func("proa_authorize", []byte{I32, I32}, []byte{I64}, nil, Reply(ReplyAt, uint32(len(reply))))
	wasm := writeFile(t, "p.wasm", m.Bytes())
	for _, tc := range []struct{ cases, want string }{
		{`{point: authorize, request: {spec: {user: a}}, want: {reply: {decision: Deny, more: [1, {}]}}}`, "ok"},
		{`{point: authorize, request: {spec: {}}, want: {reply: {decision: Allow}}}`, `reply.decision: got "Deny", want "Allow"`},
		{`{point: authorize, request: {spec: {}}, want: {reply: {more: [1]}}}`, `reply.more: got [1,{"a":2}], want [1]`},
		{`{point: authorize, request: {spec: {}}, want: {reply: {less: 1}}}`, `reply.less: it is missing`},
		{`{point: convert, request: {}, want: {}}`, "proa_convert"},
	} {
		out, err := run(t, "test", wasm, writeFile(t, "cases.yaml", []byte(tc.cases)))
		if !strings.Contains(out, tc.want) || (err == nil) != (tc.want == "ok") {
			t.Errorf("%s: %v\n%s", tc.cases, err, out)
		}
	}
}

// TestManifest: a manifest is put into a module, and shown.
func TestManifest(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	wasm := writeFile(t, "p.wasm", Fixed(""))
	manifest := writeFile(t, "manifest.json", []byte(`{"name":"n","version":"1","kinds":["admit","filter"],"capabilities":["kube.get","random"]}`))
	if out, err := run(t, "manifest", wasm, manifest); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := run(t, "inspect", wasm)
	for _, want := range []string{"n 1", "admit, filter", "kube.get, random"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, want %q\n%s", err, want, out)
		}
	}
	if _, err := run(t, "manifest", wasm, writeFile(t, "m", []byte("{"))); err == nil {
		t.Error("a broken manifest is taken")
	}
	if _, err := run(t, "manifest", manifest, manifest); err == nil {
		t.Error("a text gets a manifest")
	}
}
