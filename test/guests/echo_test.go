package guests_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
)

// readers has a kit read values and write them again, piece by piece: they must
// be what encoding/json makes of them.
func readers(t *testing.T, wasm []byte) {
	t.Helper()
	e, err := engine.New(engine.Config{CacheDir: filepath.Join(os.Getenv("XDG_CACHE_HOME"), "proa", "plugins")}) // that of "proa plugin"
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	code, err := e.Load(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	p, err := native.Start(t.Context(), e, code, native.Config{Name: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	values := []string{
		`"\u0000\b\f\n\r\t\/\\\" \ud83d\ude00 \ud83d \ude00 \ud83d\ud83d\ude00 é😀"`, `{"\"":{"\\":[[],{},"",{"":0}]},"a b":" , : } ] "}`,
		`[ -9223372036854775808 , 9223372036854775807 , 9223372036854775808, -0, 0.5e-3, 1E+2 , true,false , null ]`, " { \"a\" : [ 1 , 2 ] ,\n\t\"b\":\r{ } } ",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		values = append(values, random(r, 4))
	}
	for _, v := range values {
		reply, _, err := p.Admit(t.Context(), engine.Call{}, abi.PhaseMutate, &abi.AdmissionRequest{Operation: "CREATE", Object: []byte(`{"do":"echo","value":` + v + `}`)})
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		var got, want any
		if err := json.Unmarshal(reply.Object, &got); err != nil {
			t.Fatalf("%s became %s: %v", v, reply.Object, err)
		}
		if err := json.Unmarshal([]byte(`{"value":`+v+`}`), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %s", v, reply.Object)
		}
	}
}

// random makes a JSON value.
func random(r *rand.Rand, depth int) string {
	kind := r.IntN(7)
	if depth == 0 {
		kind = r.IntN(5)
	}
	space := strings.Repeat(" ", r.IntN(3))
	switch kind {
	case 0:
		return space + []string{"true", "false", "null"}[r.IntN(3)]
	case 1:
		return space + fmt.Sprint((r.Int64()>>r.IntN(64))*int64(1-2*r.IntN(2)))
	case 2:
		return fmt.Sprint(r.NormFloat64()) + space
	case 3, 4:
		return space + text(r)
	case 5:
		var items []string
		for range r.IntN(5) {
			items = append(items, random(r, depth-1))
		}
		return "[" + strings.Join(items, ","+space) + space + "]"
	}
	var members []string
	for i := range r.IntN(5) {
		members = append(members, fmt.Sprintf(`%s"%d%s:%s`, space, i, text(r)[1:], random(r, depth-1)))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// text makes a JSON string, with escapes of all sorts.
func text(r *rand.Rand) string {
	var b strings.Builder
	b.WriteByte('"')
	for range r.IntN(12) {
		switch r.IntN(8) {
		case 0:
			b.WriteString([]string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`}[r.IntN(8)])
		case 1:
			fmt.Fprintf(&b, `\u%04x`, r.IntN(1<<16))
		case 2:
			fmt.Fprintf(&b, `\ud8%02X\uDc%02x`, r.IntN(256), r.IntN(256))
		case 3:
			b.WriteString(string([]rune("é€😀ß漢\u2028")[r.IntN(6)]))
		case 4:
			b.WriteByte("{}[]:,"[r.IntN(6)])
		default:
			b.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	b.WriteByte('"')
	return b.String()
}
