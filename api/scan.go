package api

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
	"unsafe"
)

// A scanner walks JSON without decoding it. It trusts its input to be valid
// JSON: on anything else it stops early with ok false, or reports nonsense, but
// never reads out of bounds.
type scanner struct {
	data []byte
	pos  int
}

// space moves past white space and returns the byte it stands at, or 0.
func (s *scanner) space() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// enter moves past the opening brace of an object.
func (s *scanner) enter() bool {
	if s.space() != '{' {
		return false
	}
	s.pos++
	return true
}

// key moves to the value of an object's next member and returns the raw key,
// without quotes. It moves past the closing brace and returns ok false at the
// object's end, and ok false where there is no member.
func (s *scanner) key() (key []byte, ok bool) {
	c := s.space()
	if c == ',' {
		s.pos++
		c = s.space()
	}
	if c != '"' {
		if c == '}' {
			s.pos++
		}
		return nil, false
	}
	key, ok = s.str()
	if !ok || s.space() != ':' {
		return nil, false
	}
	s.pos++
	return key, true
}

// str moves past a string and returns what is between its quotes, still
// escaped.
func (s *scanner) str() ([]byte, bool) {
	start := s.pos + 1
	end := start
	for {
		if end > len(s.data) {
			return nil, false
		}
		i := bytes.IndexByte(s.data[end:], '"')
		if i < 0 {
			s.pos = len(s.data)
			return nil, false
		}
		end += i
		n := 0 // backslashes before the quote
		for end-n > start && s.data[end-n-1] == '\\' {
			n++
		}
		end++
		if n%2 == 0 {
			s.pos = end
			return s.data[start : end-1], true
		}
	}
}

// skip moves past a value.
func (s *scanner) skip() bool {
	depth := 0
	for {
		c := s.space()
		switch c {
		case 0:
			return false
		case '"':
			if _, ok := s.str(); !ok {
				return false
			}
		case '{', '[':
			depth++
			s.pos++
			continue
		case '}', ']':
			depth--
			s.pos++
			if depth < 0 {
				return false
			}
		case ',', ':':
			if depth == 0 {
				return false
			}
			s.pos++
			continue
		default: // a number, true, false or null
			start := s.pos
			for s.pos < len(s.data) && !delimits[s.data[s.pos]] {
				s.pos++
			}
			if s.pos == start {
				return false
			}
		}
		if depth == 0 {
			return true
		}
	}
}

// delimits says which bytes end a number or a literal.
//
//nolint:gochecknoglobals // a constant in all but name
var delimits = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true, '\r': true, '"': true, ':': true, '{': true, '[': true}

// find moves to the value of the first member with the key.
func (s *scanner) find(key string) bool {
	for {
		k, ok := s.key()
		if !ok {
			return false
		}
		if sameKey(k, key) {
			return true
		}
		if !s.skip() {
			return false
		}
	}
}

// sameKey compares a raw key with a name.
func sameKey(raw []byte, name string) bool {
	if string(raw) == name {
		return true
	}
	return bytes.IndexByte(raw, '\\') >= 0 && unescape(raw) == name
}

// unescape returns the string that raw stands for. Without escapes and with
// valid UTF-8 the result shares raw's memory.
func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return unsafe.String(unsafe.SliceData(raw), len(raw)) //nolint:gosec // values are never written to
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var out string
	if err := json.Unmarshal(quoted, &out); err != nil {
		return ""
	}
	return out
}
