package httpapi

import (
	"fmt"
	"testing"
)

func TestMemo(t *testing.T) {
	m := newMemo(1000)
	value := func(i int) []byte { return []byte(fmt.Sprintf("%050d", i)) }
	values := make([][]byte, 30)
	for i := range values {
		values[i] = value(i)
		m.put(values[i], []byte(fmt.Sprint(i)))
		if m.size > m.limit || len(m.forms) != len(m.order) {
			t.Fatalf("size %d, %d forms, %d in order", m.size, len(m.forms), len(m.order))
		}
	}
	for i, v := range values {
		form, ok := m.get(v)
		if recent := i >= 11; ok != recent || (ok && string(form) != fmt.Sprint(i)) {
			t.Errorf("%d: %q %t", i, form, ok)
		}
	}
	if _, ok := m.get(value(29)); ok {
		t.Error("an equal value is not the same")
	}
	m.put(make([]byte, 500), nil)
	if len(m.forms) != 19 {
		t.Error("a huge value drove out others")
	}
	m.put(nil, nil)
	if _, ok := m.get(nil); ok {
		t.Error("nothing is known")
	}
	if _, ok := m.get(values[29][:10]); ok {
		t.Error("a part of a value is not the value")
	}
}
