package fuel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/fuel"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// valid asks wazero, whose interpreter is quick to load.
func valid(wasm []byte) bool {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer rt.Close(ctx) // has no instance
	m, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		return false
	}
	return m.Close(ctx) == nil
}

func importsMemory(t testing.TB, wasm []byte) (imports bool) {
	t.Helper()
	compiled(t, wasm, func(m wazero.CompiledModule) { imports = len(m.ImportedMemories()) > 0 })
	return imports
}

// corpus are the modules of wazero's copy of the specification's tests.
func corpus(t testing.TB) (files []string, spectest string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("find wazero's sources: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "internal", "integration_test", "spectest")
	for _, part := range []string{"v1", "v2", "tail-call", "exception-handling", "extended-const", "threads", "typed-function-references"} {
		names, err := filepath.Glob(filepath.Join(dir, part, "testdata", "*.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, names...)
	}
	if len(files) < 1000 {
		t.Fatalf("the corpus has only %d modules", len(files))
	}
	return files, filepath.Join(dir, "testdata", "spectest.wasm")
}

// TestCorpus: what is valid stays valid, what is invalid does not become valid,
// and both compute the same.
func TestCorpus(t *testing.T) {
	files, spectest := corpus(t)
	spec, err := os.ReadFile(spectest)
	if err != nil {
		t.Fatal(err)
	}
	var good, refused, bad, functions int
	for n, file := range files {
		if testing.Short() && n%10 != 0 {
			continue
		}
		wasm, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(filepath.Dir(file))) + "/" + filepath.Base(file)
		res, err := fuel.Rewrite(wasm, fuel.Options{})
		if err != nil && !errors.Is(err, fuel.ErrUnsupported) && !errors.Is(err, fuel.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if !valid(wasm) {
			bad++
			if err == nil && valid(res.Module) {
				t.Errorf("%s: became valid by the rewrite", name)
			}
			continue
		}
		if err != nil {
			refused++
			if !errors.Is(err, fuel.ErrUnsupported) {
				t.Errorf("%s: a valid module is called malformed: %v", name, err)
			}
			continue
		}
		good++
		if !valid(res.Module) {
			t.Errorf("%s: became invalid by the rewrite", name)
			continue
		}
		if diff := exportsDiffer(t, wasm, res.Module); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if importsMemory(t, wasm) {
			continue // it has one of its own now: see TestImportedMemory
		}
		functions += compare(t, name, wasm, res.Module, spec, uint64(n))
	}
	t.Logf("%d valid modules, of which %d refused; %d invalid; %d functions computed alike", good+refused, refused, bad, functions)
}

// compare runs the exports of the original and the rewritten module with the
// same arguments. It returns how many functions it could compare.
func compare(t *testing.T, name string, original, rewritten, spec []byte, seed uint64) (compared int) {
	t.Helper()
	ctx := context.Background()
	h := newHost(t)
	defer h.rt.Close(ctx) // frees memory only
	plain := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(256))
	defer plain.Close(ctx) // frees memory only

	load := func(rt wazero.Runtime, wasm []byte) (api.Module, error) {
		if spec != nil && bytes.Contains(wasm, []byte("spectest")) {
			if _, err := rt.InstantiateWithConfig(ctx, spec, wazero.NewModuleConfig().WithName("spectest")); err != nil {
				t.Fatal(err)
			}
		}
		return rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	}
	h.budget = 100
	b, errB := load(h.rt, rewritten)
	if errors.Is(errB, errStop) {
		return 0
	}
	a, errA := load(plain, original)
	if (errA == nil) != (errB == nil) {
		t.Errorf("%s: instantiate: %v and %v", name, errA, errB)
	}
	if errA != nil || errB != nil {
		return 0
	}
	r := rand.New(rand.NewPCG(seed, 1))
	var exports []string
	for e := range a.ExportedFunctionDefinitions() {
		exports = append(exports, e)
	}
	sort.Strings(exports)
	for _, e := range exports {
		f := a.ExportedFunction(e)
		def := f.Definition()
		if references(def.ParamTypes()) || references(def.ResultTypes()) {
			continue
		}
		if bytes.Contains(original, []byte{0xfc, 15}) {
			continue // table.grow: ours has a maximum
		}
		for range 3 {
			args := make([]uint64, 0, len(def.ParamTypes()))
			for _, p := range def.ParamTypes() {
				args = append(args, argument(r, p))
			}
			gotB, errB := h.call(b, e, 100, args...)
			if errors.Is(errB, errStop) {
				return compared // the states differ from now on
			}
			gotA, errA := f.Call(ctx, args...)
			if !alike(def.ResultTypes(), gotA, gotB, errA, errB) {
				t.Errorf("%s: %s(%v) = %v, %v and %v, %v", name, e, args, gotA, errA, gotB, errB)
			}
		}
		compared++
	}
	if ma, mb := a.Memory(), b.Memory(); !reflect.ValueOf(ma).IsNil() && !reflect.ValueOf(mb).IsNil() {
		x, _ := ma.Read(0, ma.Size())
		y, _ := mb.Read(0, mb.Size())
		if !bytes.Equal(x, y) {
			t.Errorf("%s: the memories differ", name)
		}
	}
	return compared
}

func references(types []api.ValueType) bool {
	for _, v := range types {
		if v != api.ValueTypeI32 && v != api.ValueTypeI64 && v != api.ValueTypeF32 && v != api.ValueTypeF64 {
			return true
		}
	}
	return false
}

func argument(r *rand.Rand, v api.ValueType) uint64 {
	small := []uint64{0, 1, 2, 7, math.MaxUint64, math.MaxUint64 - 1, 1 << 31, 1<<63 - 1}
	n := r.Uint64()
	if n%3 != 0 {
		n = small[n%uint64(len(small))]
	}
	switch v {
	case api.ValueTypeI32:
		return n & 0xffffffff
	case api.ValueTypeF32:
		return api.EncodeF32(float32(int32(n)) / 3)
	case api.ValueTypeF64:
		return api.EncodeF64(float64(int64(n)) / 3)
	}
	return n
}

func alike(types []api.ValueType, a, b []uint64, errA, errB error) bool {
	if errA != nil || errB != nil {
		return errA != nil && errB != nil && cause(errA) == cause(errB)
	}
	for i, v := range types {
		switch v {
		case api.ValueTypeF32: // the payload of a NaN is free
			x, y := api.DecodeF32(a[i]), api.DecodeF32(b[i])
			if x != x && y != y {
				continue
			}
		case api.ValueTypeF64:
			x, y := api.DecodeF64(a[i]), api.DecodeF64(b[i])
			if x != x && y != y {
				continue
			}
		}
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// cause is the first line of an error, which names the kind of trap.
func cause(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// program generates a module whose functions compute with loops, calls, early
// exits, memory and globals.
func program(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 2))
	m := &Module{}
	m.Memory(1, 3)
	g32, g64 := m.Global(I32, int64(int32(r.Uint32()))), m.Global(I64, r.Int64())
	n := 1 + r.IntN(5)
	var callees [][]byte
	for f := range n {
		w := &writer{r: r, g32: g32, g64: g64, callees: callees}
		results := []byte{I32}
		if r.IntN(3) == 0 {
			results = append(results, I64)
		}
		w.results = results
		w.block(0)
		code := w.out
		code = append(code, w.result()...)
		// Parameters: two i32, one i64; locals: two i32, one i64, and loop counters.
		callees = append(callees, results)
		m.Func(fmt.Sprintf("f%d", f), []byte{I32, I32, I64}, results, append([]byte{I32, I32, I64}, bytes.Repeat([]byte{I32}, 4)...), code)
	}
	return m.Bytes()
}

// A writer writes the code of one function.
type writer struct {
	r        *rand.Rand
	out      []byte
	g32, g64 uint32
	results  []byte
	callees  [][]byte // results of the functions before this one
	labels   int
}

func (w *writer) i32() uint32 { return []uint32{0, 1, 3, 4}[w.r.IntN(4)] }
func (w *writer) i64() uint32 { return []uint32{2, 5}[w.r.IntN(2)] }

func (w *writer) emit(parts ...[]byte) {
	for _, p := range parts {
		w.out = append(w.out, p...)
	}
}

// expr32 leaves an i32 on the stack.
func (w *writer) expr32(depth int) {
	if depth > 3 {
		w.emit(Get(w.i32()))
		return
	}
	switch w.r.IntN(9) {
	case 0:
		w.emit(Const32(int32(w.r.Uint32())))
		if n := len(w.callees); n > 0 && w.r.IntN(3) == 0 { // the constant is an argument
			f := w.r.IntN(n)
			w.emit(Get(w.i32()), Get(w.i64()), Call(uint32(f)))
			if len(w.callees[f]) > 1 {
				w.emit(Drop)
			}
		}
	case 1:
		w.emit(GlobalGet(w.g32))
	case 2:
		w.expr64(depth + 1)
		w.emit(Op(0xa7)) // wrap
	case 3:
		w.expr32(depth + 1)
		w.emit(Const32(0xffc), Op(0x71), Load32) // and: within the page
	case 4:
		w.expr32(depth + 1)
		w.emit(Op([]byte{0x45, 0x67, 0x68, 0x69}[w.r.IntN(4)])) // eqz clz ctz popcnt
	default:
		w.expr32(depth + 1)
		w.expr32(depth + 1)
		w.emit(Op([]byte{0x46, 0x48, 0x4b, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77}[w.r.IntN(16)]))
	}
}

func (w *writer) expr64(depth int) {
	if depth > 3 {
		w.emit(Get(w.i64()))
		return
	}
	switch w.r.IntN(5) {
	case 0:
		w.emit(Const64(w.r.Int64()))
	case 1:
		w.emit(GlobalGet(w.g64))
	case 2:
		w.expr32(depth + 1)
		w.emit(Op(0xac)) // extend
	default:
		w.expr64(depth + 1)
		w.expr64(depth + 1)
		w.emit(Op([]byte{0x7c, 0x7d, 0x7e, 0x83, 0x84, 0x85, 0x86, 0x88, 0x89}[w.r.IntN(9)]))
	}
}

func (w *writer) result() []byte {
	b := Get(w.i32())
	if len(w.results) > 1 {
		b = append(b, Get(w.i64())...)
	}
	return b
}

func (w *writer) block(depth int) {
	for range 1 + w.r.IntN(4) {
		w.statement(depth)
	}
}

func (w *writer) statement(depth int) {
	switch k := w.r.IntN(12); {
	case k < 3:
		l := w.i32()
		w.expr32(0)
		w.emit(Set(l))
	case k == 3:
		l := w.i64()
		w.expr64(0)
		w.emit(Set(l))
	case k == 4:
		w.expr32(1)
		w.emit(GlobalSet(w.g32))
	case k == 5:
		w.expr32(2)
		w.emit(Const32(0xffc), Op(0x71))
		w.expr32(1)
		w.emit(Store32)
	case k == 6: // bulk
		w.emit(Const32(int32(w.r.IntN(4096))), Const32(int32(w.r.IntN(256))), Const32(int32(w.r.IntN(4096))), Fill)
	case k == 7:
		w.emit(Const32(int32(w.r.IntN(2))), Grow, Set(w.i32()))
	case k == 8 && w.labels > 0:
		w.expr32(2)
		w.emit(BrIf(uint32(w.r.IntN(w.labels))))
	case k == 9:
		w.expr32(2)
		w.emit(Op(0x04, 0x40))
		w.labels++
		w.emit(w.result(), Return)
		w.labels--
		w.emit(Op(0x0b))
	case depth < 3 && k == 10: // a loop that ends
		counter := uint32(6 + depth)
		w.emit(Const32(int32(1+w.r.IntN(20))), Set(counter), Op(0x02, 0x40), Op(0x03, 0x40))
		labels := w.labels
		w.labels = 0 // jumps out of here could repeat the loop
		w.block(depth + 1)
		w.labels = labels
		w.emit(Get(counter), Const32(1), Sub32, Set(counter), Get(counter), BrIf(0), Op(0x0b), Op(0x0b))
	case depth < 3:
		w.emit(Op(0x02, 0x40))
		w.labels++
		w.block(depth + 1)
		w.labels--
		w.emit(Op(0x0b))
	}
}

func TestGeneratedPrograms(t *testing.T) {
	for seed := range uint64(200) {
		check(t, seed)
	}
}

func check(t *testing.T, seed uint64) {
	t.Helper()
	wasm := program(seed)
	res, err := fuel.Rewrite(wasm, fuel.Options{})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	compare(t, fmt.Sprintf("seed %d", seed), wasm, res.Module, nil, seed)
}

// FuzzPrograms is TestGeneratedPrograms without an end.
func FuzzPrograms(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { check(t, seed) })
}

// FuzzRewrite feeds any bytes: the rewriter never panics, what is valid stays
// valid, and nothing else becomes so; it exports what it did, and computes the
// same.
func FuzzRewrite(f *testing.F) {
	f.Add(guests().Bytes())
	for _, seed := range corpusSeeds(f) {
		f.Add(seed)
	}
	for seed := range uint64(10) {
		f.Add(program(seed))
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		res, err := fuel.Rewrite(wasm, fuel.Options{MaxLocals: 1000, MaxValues: 100_000, MaxBody: 16 << 10})
		if err != nil {
			return // wazero takes all memory for some of these
		}
		ok := valid(res.Original)
		if ok != valid(res.Module) {
			t.Fatalf("valid is %v before and %v after", ok, !ok)
		}
		if !ok {
			return
		}
		if diff := exportsDiffer(t, res.Original, res.Module); diff != "" {
			t.Error(diff)
		}
		if !importsMemory(t, res.Original) && smallMemory(t, res.Original) {
			compare(t, "fuzz", res.Original, res.Module, nil, uint64(len(wasm)))
		}
	})
}

// corpusSeeds are small modules of the specification's tests, of all features.
func corpusSeeds(t testing.TB) [][]byte {
	t.Helper()
	const each, most = 100, 2 << 10
	files, _ := corpus(t)
	var out [][]byte
	for n := 0; n < len(files); n += each {
		b, err := os.ReadFile(files[n])
		if err != nil {
			t.Fatal(err)
		}
		if len(b) <= most {
			out = append(out, b)
		}
	}
	return out
}

// smallMemory reports whether a module has what two runtimes can instantiate
// many times a second.
func smallMemory(t testing.TB, wasm []byte) bool {
	t.Helper()
	small := true
	compiled(t, wasm, func(m wazero.CompiledModule) {
		for _, d := range m.ExportedMemories() {
			small = small && d.Min() <= 16
		}
		small = small && len(m.ImportedFunctions()) == 0
	})
	return small
}

// exportsDiffer says what of the original's exports the rewritten module lacks,
// or has beside them and the rewriter's own.
func exportsDiffer(t testing.TB, original, rewritten []byte) string {
	t.Helper()
	signatures := func(wasm []byte) map[string]string {
		out := map[string]string{}
		compiled(t, wasm, func(m wazero.CompiledModule) {
			for name, d := range m.ExportedFunctions() {
				out["function "+name] = fmt.Sprintf("%x %x", d.ParamTypes(), d.ResultTypes())
			}
			for name, d := range m.ExportedMemories() {
				most, bounded := d.Max()
				out["memory "+name] = fmt.Sprint(d.Min(), most, bounded)
			}
		})
		return out
	}
	before, after := signatures(original), signatures(rewritten)
	var diff []string
	for name, s := range before {
		if after[name] != s {
			diff = append(diff, fmt.Sprintf("export %q is %s, was %s", name, after[name], s))
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok && !strings.Contains(name, " proa:") {
			diff = append(diff, fmt.Sprintf("export %q is new", name))
		}
	}
	sort.Strings(diff)
	return strings.Join(diff, "; ")
}

// compiled calls f with a module that is valid.
func compiled(t testing.TB, wasm []byte, f func(m wazero.CompiledModule)) {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer rt.Close(ctx) // has no instance
	m, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	f(m)
}
