package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestBombs are small modules that would take a compiler much memory or time.
func TestBombs(t *testing.T) {
	section := func(id byte, b ...byte) []byte {
		return append(append([]byte("\x00asm\x01\x00\x00\x00"), id, byte(len(b))), b...)
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	nested := func(locals, loops int) []byte {
		m := &Module{}
		types := make([]byte, locals)
		var code [][]byte
		for range loops {
			code = append(code, Op(0x03, 0x40))
		}
		for n := range types {
			types[n] = I32
			code = append(code, Get(uint32(n)), Const32(0), Op(0x6a), Set(uint32(n)))
		}
		for range loops {
			code = append(code, Get(0), BrIf(0), Op(0x0b))
		}
		m.Func("run", nil, nil, types, code...)
		return m.Bytes()
	}
	e := newEngine(t, engine.Config{})
	for name, tc := range map[string]struct {
		wasm []byte
		ok   bool
	}{
		"types":            {section(1, huge...), false},
		"imports":          {section(2, huge...), false},
		"functions":        {section(3, huge...), false},
		"tables":           {section(4, huge...), false},
		"memories":         {section(5, huge...), false},
		"globals":          {section(6, huge...), false},
		"exports":          {section(7, huge...), false},
		"element segments": {section(9, huge...), false},
		"elements":         {section(9, append([]byte{1, 1, 0}, huge...)...), false},
		"code":             {section(10, huge...), false},
		"data":             {section(11, huge...), false},
		"names":            {section(0, append([]byte("\x04name\x01\x05"), huge...)...), true}, // are left out
		"values":           {nested(1000, 1000), false},
		"fewer values":     {nested(100, 100), true},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		code, err := e.Load(context.Background(), tc.wasm)
		runtime.ReadMemStats(&after)
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			code.Close()
		}
		took, memory := time.Since(begin), (after.TotalAlloc-before.TotalAlloc)>>20
		t.Logf("%s: %v, %d MiB: %v", name, took, memory, err)
		if took > 20*time.Second || memory > 1024 {
			t.Errorf("%s: took %v and %d MiB", name, took, memory)
		}
	}
}

func TestCompileTimeout(t *testing.T) {
	m := &Module{}
	var code [][]byte
	for range 2000 {
		code = append(code, Const32(1), Const32(2), Add32, Drop)
	}
	for range 200 {
		m.Func("", nil, nil, nil, code...)
	}
	e := newEngine(t, engine.Config{CompileTimeout: time.Millisecond})
	_, err := e.Load(context.Background(), m.Bytes())
	if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "compiling took longer than 1ms") {
		t.Errorf("%v", err)
	}
}
