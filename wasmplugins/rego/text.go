package rego

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/proa-project/proa/wasmplugins/engine"
)

func textBuiltins() map[string]builtin {
	return map[string]builtin{
		"sprintf": sprintf,
		"trace":   func(c *call) any { c.i.Print(engine.Debug, []byte(c.text(0))); return true },
		"internal.print": func(c *call) any {
			var parts []string
			for _, operand := range c.array(0) {
				values, ok := operand.(set)
				switch {
				case !ok || len(values) == 0:
					parts = append(parts, "<undefined>")
				default:
					parts = append(parts, display(values[0]))
				}
			}
			c.i.Print(engine.Notice, []byte(strings.Join(parts, " ")))
			return true
		},
		"indexof_n": func(c *call) any {
			s, part := c.text(0), c.text(1)
			if part == "" {
				none()
			}
			c.pay(len(s), 1+len(part)>>4)
			out := []any{}
			for at, runes := 0, 0; ; {
				n := strings.Index(s[at:], part)
				if n < 0 {
					return out
				}
				runes += utf8.RuneCountInString(s[at : at+n])
				out = append(out, integer(int64(runes)))
				_, size := utf8.DecodeRuneInString(s[at+n:])
				at, runes = at+n+size, runes+1
			}
		},
		"strings.any_prefix_match": func(c *call) any { return c.any(strings.HasPrefix) },
		"strings.any_suffix_match": func(c *call) any { return c.any(strings.HasSuffix) },
		"strings.count": func(c *call) any {
			c.pay(len(c.text(0)), 1)
			return integer(int64(strings.Count(c.text(0), c.text(1))))
		},
		"strings.reverse": func(c *call) any {
			r := []rune(c.text(0))
			for a, b := 0, len(r)-1; a < b; a, b = a+1, b-1 {
				r[a], r[b] = r[b], r[a]
			}
			return string(r)
		},
		"strings.replace_n": func(c *call) any {
			s := c.text(1)
			var pairs []string
			size := len(s) + 1
			for _, m := range c.object(0) {
				from, okFrom := m.key.(string)
				to, okTo := m.value.(string)
				if !okFrom || !okTo {
					none()
				}
				pairs = append(pairs, from, to)
				size += (len(s) + 1) * len(to) / max(len(from), 1)
			}
			c.fits(size)
			c.pay(len(s), len(pairs))
			return strings.NewReplacer(pairs...).Replace(s)
		},
		"strings.split_n": func(c *call) any {
			parts := list(strings.Split(c.text(0), c.text(1)))
			switch n, all := c.int64(2), int64(len(parts)); {
			case n >= 0:
				return parts[:min(n, all)]
			default: // the last ones
				return parts[max(all+n, 0):]
			}
		},
	}
}

// any reports whether one of the first argument's texts has one of the second's
// at an end.
func (c *call) any(has func(s, end string) bool) bool {
	search, ends := c.texts(0), c.texts(1)
	longest := 0
	for _, e := range ends {
		longest = max(longest, len(e))
	}
	c.pay(len(search)*len(ends), 4+longest>>4)
	for _, s := range search {
		for _, e := range ends {
			if has(s, e) {
				return true
			}
		}
	}
	return false
}

// display is a value as it stands in a text: a text is without quotes.
func display(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return show(v)
}

// sprintf is Go's, with the arguments that OPA gives to it.
func sprintf(c *call) any {
	format := c.text(0)
	args, longest := []any{}, 16
	for _, a := range c.array(1) {
		switch a := a.(type) {
		case json.Number:
			args = append(args, formatted(a))
			longest = max(longest, len(a))
		default:
			s := display(a)
			args = append(args, s)
			longest = max(longest, len(s))
		}
	}
	size, ok := sprintfSize(format, longest, len(args))
	if !ok {
		none()
	}
	c.fits(size)
	c.pay(size, 1)
	return formattedText(format, args...)
}

func formatted(n json.Number) any {
	if v, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return v
	}
	if v, ok := new(big.Int).SetString(string(n), 10); ok {
		return v
	}
	if f, err := n.Float64(); err == nil {
		return f
	}
	return string(n)
}

// sprintfSize bounds what a format makes of some arguments up to a length. A width that
// an argument gives is refused, and so is a very large one.
func sprintfSize(format string, longest, args int) (int, bool) {
	const widest = 1000
	size := len(format) + 16 + args*(longest+64) // those that are too many are named
	for n := 0; n < len(format); n++ {
		if format[n] != '%' {
			continue
		}
		size += 6*longest + 64 // %q and %x write more than they get
		for n++; n < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[n]) >= 0; n++ {
			width := 0
			for ; n < len(format) && format[n] >= '0' && format[n] <= '9' && width <= widest; n++ {
				width = 10*width + int(format[n]-'0')
			}
			if width > widest || n < len(format) && format[n] == '*' {
				return 0, false
			}
			size += width
			if n == len(format) || strings.IndexByte("+-# .[]", format[n]) < 0 {
				break
			}
		}
	}
	return size, true
}

// formattedText is what sprintf does when it is sure of the size.
func formattedText(format string, args ...any) string { return fmt.Sprintf(format, args...) }
