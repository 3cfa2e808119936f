package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

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
