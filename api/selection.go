package api

import (
	"bytes"
	"slices"
	"strings"
)

// A Selection is a choice of members of JSON objects: those that some reader
// needs, who then has less to decode. It may be used by many at once.
type Selection struct{ members []choice }

// A choice is a member of an object that is chosen.
type choice struct {
	key   string
	whole bool     // the value as it stands there
	names bool     // the value's names, with null for their values
	list  bool     // the value is a list, and below is about its elements
	below []choice // what is chosen of the value, unless it is one of the above
}

// Select returns the selection of the members at paths. A path is names with
// dots between them: "spec.nodeName" is that member, whole. "spec.hosts[].name"
// is a member of all elements of a list, "spec.hosts[]" the elements without
// any members, as many as there are, and "data{}" the names in an object, with
// null for their values. Where a value is not of the sort that its path says,
// it is chosen whole. Of two paths that end at one member, the first counts.
func Select(paths ...string) *Selection {
	s := &Selection{}
	for _, path := range paths {
		choose(&s.members, path)
	}
	return s
}

func choose(members *[]choice, path string) {
	key, rest, more := strings.Cut(path, ".")
	key, list := strings.CutSuffix(key, "[]")
	key, names := strings.CutSuffix(key, "{}")
	i := slices.IndexFunc(*members, func(c choice) bool { return c.key == key })
	if i < 0 {
		i = len(*members)
		*members = append(*members, choice{key: key, list: list, names: names, whole: !more && !list && !names})
	}
	if more {
		choose(&(*members)[i].below, rest)
	}
}

// Append appends a JSON object to b with nothing but the members that are
// chosen, in their order and without the space between them. What is no JSON
// object is appended as it is.
func (s *Selection) Append(b, object []byte) []byte {
	sc := scanner{data: object}
	if sc.space() == '{' {
		if out, ok := sc.cut(b, s.members); ok {
			return out
		}
	}
	return append(b, object...)
}

// cut appends the object at s as far as it is chosen and moves past it.
func (s *scanner) cut(b []byte, members []choice) ([]byte, bool) {
	b = append(b, '{')
	s.pos++
	start := len(b)
	for {
		key, ok := s.key()
		if !ok {
			return append(b, '}'), s.data[s.pos-1] == '}'
		}
		c := chosen(members, key)
		if c == nil {
			if !s.skip() {
				return b, false
			}
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), key...), `":`...)
		if b, ok = s.cutValue(b, c); !ok {
			return b, false
		}
	}
}

// cutValue appends the value at s as far as c chooses it and moves past it.
func (s *scanner) cutValue(b []byte, c *choice) ([]byte, bool) {
	at := s.space()
	switch {
	case c.whole:
	case c.list && at == '[':
		return s.cutList(b, c.below)
	case c.names && at == '{':
		return s.cutNames(b)
	case !c.list && !c.names && at == '{':
		return s.cut(b, c.below)
	}
	return s.copy(b)
}

// copy appends the value at s and moves past it.
func (s *scanner) copy(b []byte) ([]byte, bool) {
	start := s.pos
	ok := s.skip()
	return append(b, s.data[start:s.pos]...), ok
}

// cutList appends the list at s, with members of its elements, and moves past
// it.
func (s *scanner) cutList(b []byte, members []choice) ([]byte, bool) {
	b = append(b, '[')
	s.pos++
	for start := len(b); ; {
		at := s.space()
		switch at {
		case ']':
			s.pos++
			return append(b, ']'), true
		case ',':
			s.pos++
			at = s.space()
		}
		if len(b) > start {
			b = append(b, ',')
		}
		var ok bool
		if at == '{' {
			b, ok = s.cut(b, members)
		} else {
			b, ok = s.copy(b)
		}
		if !ok {
			return b, false
		}
	}
}

// cutNames appends the object at s with null for all values and moves past it.
func (s *scanner) cutNames(b []byte) ([]byte, bool) {
	b = append(b, '{')
	s.pos++
	for start := len(b); ; {
		key, ok := s.key()
		if !ok {
			return append(b, '}'), s.data[s.pos-1] == '}'
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), key...), `":null`...)
		if !s.skip() {
			return b, false
		}
	}
}

// chosen returns the choice of the member with the raw key, or nil.
func chosen(members []choice, key []byte) *choice {
	for i := range members {
		if string(key) == members[i].key {
			return &members[i]
		}
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return nil
	}
	name := unescape(key)
	for i := range members {
		if name == members[i].key {
			return &members[i]
		}
	}
	return nil
}
