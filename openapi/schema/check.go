package schema

import "slices"

// A cursor walks over JSON. Its methods consume what they are named for and
// report false if it is not there or does not fit.
type cursor struct {
	data []byte
	at   int
}

func (c *cursor) space() {
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return
		}
	}
}

// peek returns the next byte that is not space; 0 at the end.
func (c *cursor) peek() byte {
	c.space()
	if c.at >= len(c.data) {
		return 0
	}
	return c.data[c.at]
}

func (c *cursor) word(w string) bool {
	if len(c.data)-c.at >= len(w) && string(c.data[c.at:c.at+len(w)]) == w {
		c.at += len(w)
		return true
	}
	return false
}

// value checks a value against a schema; nil lets all pass.
func (c *cursor) value(s *Schema, depth int) bool {
	if s == nil {
		return c.skip(depth)
	}
	if depth > maxDepth || s.Opaque {
		return false
	}
	switch b := c.peek(); b {
	case 'n':
		return c.word("null")
	case '{':
		return s.Types&Object != 0 && c.object(s, depth)
	case '[':
		return s.Types&Array != 0 && c.array(s.Items, depth)
	case '"':
		text, ok := c.text()
		return ok && s.Types&String != 0 && s.Format.fits(text)
	case 't', 'f':
		return s.Types&Boolean != 0 && (c.word("true") || c.word("false"))
	default:
		return c.number(s)
	}
}

// object checks an object and that it has what is required, not as null.
//
//nolint:gocognit // one pass over the text, without a call for each member
func (c *cursor) object(s *Schema, depth int) bool {
	c.at++
	var got uint64
	for first := true; ; first = false {
		switch c.peek() {
		case '}':
			c.at++
			return first && s.required == 0 || !first && got == s.required
		case ',':
			if first {
				return false
			}
			c.at++
			c.space()
		default:
			if !first {
				return false
			}
		}
		key, ok := c.text()
		if !ok || c.peek() != ':' {
			return false
		}
		c.at++
		p := s.Properties[string(key)]
		if p == nil {
			if len(s.Properties) > 0 && hasEscape(key) {
				return false // it may be one of them, written in another way
			}
			if !c.value(s.Additional, depth+1) {
				return false
			}
			continue
		}
		if c.peek() == 'n' {
			got &^= p.bit
		} else {
			got |= p.bit
		}
		if !c.value(p.Schema, depth+1) {
			return false
		}
	}
}

func (c *cursor) array(items *Schema, depth int) bool {
	c.at++
	if c.peek() == ']' {
		c.at++
		return true
	}
	for {
		if c.peek() == 'n' && items != nil {
			return false // an item cannot be absent
		}
		if !c.value(items, depth+1) {
			return false
		}
		switch c.peek() {
		case ',':
			c.at++
		case ']':
			c.at++
			return true
		default:
			return false
		}
	}
}

// text consumes a string and returns what is between the quotes.
func (c *cursor) text() ([]byte, bool) {
	if c.at >= len(c.data) || c.data[c.at] != '"' {
		return nil, false
	}
	start := c.at + 1
	for i := start; i < len(c.data); i++ {
		switch b := c.data[i]; {
		case b == '"':
			c.at = i + 1
			return c.data[start:i], true
		case b == '\\':
			n := escape(c.data[i+1:])
			if n == 0 {
				return nil, false
			}
			i += n
		case b < ' ':
			return nil, false
		}
	}
	return nil, false
}

// escape returns the length of the escape sequence after a backslash, 0 if it
// is none.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(b) < 5 {
			return 0
		}
		for _, h := range b[1:5] {
			if !isDigit(h) && (h < 'a' || h > 'f') && (h < 'A' || h > 'F') {
				return 0
			}
		}
		return 5
	}
	return 0
}

func hasEscape(text []byte) bool {
	return slices.Contains(text, '\\')
}

// number checks a number. Integers with an exponent are left to others.
func (c *cursor) number(s *Schema) bool {
	negative := c.at < len(c.data) && c.data[c.at] == '-'
	if negative {
		c.at++
	}
	start, value := c.at, uint64(0)
	for c.at < len(c.data) && isDigit(c.data[c.at]) {
		value = value*10 + uint64(c.data[c.at]-'0')
		c.at++
	}
	digits := c.at - start
	if digits == 0 || digits > 1 && c.data[start] == '0' {
		return false
	}
	whole := c.at
	for c.at < len(c.data) && (isDigit(c.data[c.at]) || c.data[c.at] == '.' || c.data[c.at] == 'e' || c.data[c.at] == 'E' || c.data[c.at] == '+' || c.data[c.at] == '-') {
		c.at++
	}
	if c.at != whole {
		return s.Types&Number != 0 && isFraction(c.data[whole:c.at])
	}
	if s.Types&(Number|Integer) == 0 || digits > 19 { // of which each fits a uint64
		return false
	}
	limit := uint64(1)<<63 - 1
	if s.Format == Int32 {
		limit = 1<<31 - 1
	}
	if negative {
		limit++
	}
	return value <= limit
}

// isFraction reports whether the text is what may follow the whole part of a
// number: .5, e-3, .5e+3, with an exponent of two digits at most.
func isFraction(b []byte) bool {
	i := 0
	digits := func() int {
		n := 0
		for i < len(b) && isDigit(b[i]) {
			i++
			n++
		}
		return n
	}
	if b[0] == '.' {
		i++
		if digits() == 0 {
			return false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if n := digits(); n == 0 || n > 2 {
			return false
		}
	}
	return i == len(b)
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// fits reports whether a string has the format.
func (f Format) fits(text []byte) bool {
	switch f {
	case DateTime:
		return isDateTime(text)
	case Base64:
		return isBase64(text)
	default:
		return true
	}
}

// isBase64 reports whether the text is padded standard base64.
func isBase64(b []byte) bool {
	if len(b)%4 != 0 {
		return false
	}
	for n := 0; n < 2 && len(b) > 0 && b[len(b)-1] == '='; n++ {
		b = b[:len(b)-1]
	}
	for _, c := range b {
		if !isDigit(c) && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '+' && c != '/' {
			return false
		}
	}
	return true
}

// isDateTime reports whether the text is a time in UTC as Kubernetes writes
// them: 2006-01-02T15:04:05Z, or with a fraction of a second.
func isDateTime(b []byte) bool {
	const layout = "dddd-dd-ddTdd:dd:dd"
	if len(b) < len(layout)+1 || b[len(b)-1] != 'Z' {
		return false
	}
	for i := range len(layout) {
		if layout[i] == 'd' && !isDigit(b[i]) || layout[i] != 'd' && b[i] != layout[i] {
			return false
		}
	}
	two := func(i int) int { return int(b[i]-'0')*10 + int(b[i+1]-'0') }
	if m, d := two(5), two(8); m < 1 || m > 12 || d < 1 || d > 28 && !dayExists(two(0)*100+two(2), m, d) {
		return false
	}
	if two(11) > 23 || two(14) > 59 || two(17) > 59 {
		return false
	}
	fraction := b[len(layout) : len(b)-1]
	if len(fraction) == 0 {
		return true
	}
	if len(fraction) < 2 || len(fraction) > 10 || fraction[0] != '.' {
		return false
	}
	for _, f := range fraction[1:] {
		if !isDigit(f) {
			return false
		}
	}
	return true
}

func dayExists(year, month, day int) bool {
	switch month {
	case 4, 6, 9, 11:
		return day <= 30
	case 2:
		return day <= 28 || day == 29 && year%4 == 0 && (year%100 != 0 || year%400 == 0)
	}
	return day <= 31
}

// skip consumes any value.
func (c *cursor) skip(depth int) bool {
	if depth > maxDepth {
		return false
	}
	return c.value(&anything, depth)
}

// anything is the schema that everything fits.
//
//nolint:gochecknoglobals // a constant in all but name
var anything = Schema{Types: Any}
