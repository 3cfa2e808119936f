package httpapi

import "sync"

// memoLimit is how many bytes a memo holds on to, the values counted, which are
// in memory anyway: enough for a list of 10,000 pods of 2 KiB.
const memoLimit = 48 << 20

// A memo remembers another form of values that many ask for: a change that a
// thousand watchers want as protobuf is decoded once, and so is a list that is
// read again and again. It is small, and it forgets what is oldest.
//
// Values of the watch cache are known by where they are in memory: all readers
// get the same slice, and one that is in the memo is not used for anything
// else. So there is nothing to invalidate.
type memo struct {
	limit int

	mu    sync.RWMutex // guards the fields below
	forms map[*byte]remembered
	order []*byte // oldest first
	size  int
}

type remembered struct{ value, form []byte }

func newMemo(limit int) *memo { return &memo{limit: limit, forms: map[*byte]remembered{}} }

// get returns the form of a value, if it is known.
func (m *memo) get(value []byte) ([]byte, bool) {
	if len(value) == 0 {
		return nil, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, ok := m.forms[&value[0]]
	return r.form, ok && len(r.value) == len(value)
}

// put remembers the form of a value. Neither may be modified afterwards.
func (m *memo) put(value, form []byte) {
	if len(value) == 0 || len(value)+len(form) > m.limit/8 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.forms[&value[0]]; ok {
		return
	}
	m.forms[&value[0]] = remembered{value, form}
	m.order = append(m.order, &value[0])
	m.size += len(value) + len(form)
	for m.size > m.limit {
		oldest := m.order[0]
		m.order = m.order[1:]
		r := m.forms[oldest]
		delete(m.forms, oldest)
		m.size -= len(r.value) + len(r.form)
	}
}
