package guest

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A Value is a JSON value that stays encoded. The zero Value is a missing one:
// all its methods answer with nothing, so lookups chain without checks.
//
// The server sends valid JSON. On JSON that is broken a Value ends early and
// never panics.
type Value struct {
	d *document
	i uint32
}

// Parse returns the first JSON value in b, which it keeps.
func Parse(b []byte) Value {
	d := &document{}
	d.read(b)
	return d.root()
}

// Missing reports whether the value is not there. A null is there.
func (v Value) Missing() bool { return v.d == nil }

// IsNull reports whether the value is missing or null.
func (v Value) IsNull() bool { return v.d == nil || v.first() == 'n' }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return v.first() == '{' }

// IsArray reports whether the value is an array.
func (v Value) IsArray() bool { return v.first() == '[' }

// IsString reports whether the value is a string.
func (v Value) IsString() bool { return v.first() == '"' }

func (v Value) first() byte {
	if v.d == nil {
		return 0
	}
	return v.d.b[v.d.begin(v.i)]
}

// Raw returns the JSON, nil for a missing value. It must not be changed.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	return v.d.b[v.d.begin(v.i):v.d.end(v.i)]
}

// Get returns the value at a path of object keys, missing if any is.
func (v Value) Get(path ...string) Value {
	for _, key := range path {
		v = v.field(key)
	}
	return v
}

func (v Value) field(key string) Value {
	if v.first() != '{' {
		return Value{}
	}
	d := v.d
	for i, end := d.members(v.i); i+1 < end; i = d.next(i + 1) {
		e := d.index[i]
		if d.b[uint32(e)] != '"' {
			break // broken: no key
		}
		from, to := uint32(e)+1, uint32(e>>32)-1
		if int(to-from) == len(key) {
			if string(d.b[from:to]) == key {
				return Value{d, i + 1}
			}
		} else if int(to-from) > len(key) && bytes.IndexByte(d.b[from:to], '\\') >= 0 {
			if unquote(d.b[from-1:to+1]) == key {
				return Value{d, i + 1}
			}
		}
	}
	return Value{}
}

// Keys calls f for each member of an object, in order, until f returns false.
// It can be ranged over.
func (v Value) Keys(f func(key string, value Value) bool) {
	if v.first() != '{' {
		return
	}
	d := v.d
	for i, end := d.members(v.i); i+1 < end; i = d.next(i + 1) {
		if k := (Value{d, i}); !k.IsString() || !f(k.Text(), Value{d, i + 1}) {
			return
		}
	}
}

// Items calls f for each element of an array, in order, until f returns false.
// It can be ranged over.
func (v Value) Items(f func(index int, item Value) bool) {
	if v.first() != '[' {
		return
	}
	d := v.d
	n := 0
	for i, end := d.members(v.i); i < end; i = d.next(i) {
		if !f(n, Value{d, i}) {
			return
		}
		n++
	}
}

// Len returns the number of elements of an array, or of members of an object.
func (v Value) Len() (n int) {
	v.Keys(func(string, Value) bool { n++; return true })
	v.Items(func(int, Value) bool { n++; return true })
	return n
}

// Text returns the content of a string, and "" for every other value.
func (v Value) Text() string {
	if !v.IsString() {
		return ""
	}
	return unquote(v.Raw())
}

// Is reports whether the value is the string s. It does not allocate.
func (v Value) Is(s string) bool {
	b := v.Raw()
	if len(b) == len(s)+2 && b[0] == '"' && string(b[1:len(b)-1]) == s {
		return bytes.IndexByte(b, '\\') < 0
	}
	return v.IsString() && bytes.IndexByte(b, '\\') >= 0 && unquote(b) == s
}

// Bool returns the value of true and false, and false for every other value.
func (v Value) Bool() bool { return v.first() == 't' }

// Int returns the value of an integer, and false if it is none or too large.
func (v Value) Int() (int64, bool) {
	n, err := strconv.ParseInt(string(v.Raw()), 10, 64)
	return n, err == nil
}

// Float returns the value of a number, and false if it is none.
func (v Value) Float() (float64, bool) {
	if c := v.first(); c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	return f, err == nil
}

// unquote decodes a string with its quotes.
func unquote(b []byte) string {
	if len(b) < 2 {
		return ""
	}
	b = b[1 : len(b)-1]
	at := bytes.IndexByte(b, '\\')
	if at < 0 {
		return string(b)
	}
	out := append(make([]byte, 0, len(b)), b[:at]...)
	for i := at; i < len(b); i++ {
		c := b[i]
		if c != '\\' || i+1 >= len(b) {
			out = append(out, c)
			continue
		}
		i++
		switch b[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(b[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := utf8.RuneError
				if i+2 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
					pair = utf16.DecodeRune(r, hex4(b[i+3:]))
				}
				if r = pair; r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, b[i])
		}
	}
	return string(out)
}

func hex4(b []byte) rune {
	if len(b) < 4 {
		return utf8.RuneError
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

const hexDigits = "0123456789abcdef"

// quote appends s as a JSON string.
func quote(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				out = append(out, '\\', c)
			case c == '\n':
				out = append(out, '\\', 'n')
			case c < ' ':
				out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			default:
				out = append(out, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		out = utf8.AppendRune(out, r) // an invalid byte becomes U+FFFD
		i += n
	}
	return append(out, '"')
}
