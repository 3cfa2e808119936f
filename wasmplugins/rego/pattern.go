package rego

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

func patternBuiltins() map[string]builtin {
	return map[string]builtin{
		"regex.is_valid": func(c *call) any {
			s, ok := c.arg(0).(string)
			if ok {
				_, _, ok = c.compile(s)
			}
			return ok
		},
		"regex.match": func(c *call) any { return c.pattern(c.text(0), c.text(1)).MatchString(c.text(1)) },
		"re_match":    func(c *call) any { return c.pattern(c.text(0), c.text(1)).MatchString(c.text(1)) },
		"regex.split": func(c *call) any { return list(c.pattern(c.text(0), c.text(1)).Split(c.text(1), -1)) },
		"regex.find_n": func(c *call) any {
			return list(c.pattern(c.text(0), c.text(1)).FindAllString(c.text(1), int(c.int64(2))))
		},
		"regex.find_all_string_submatch_n": func(c *call) any {
			out := []any{}
			re := c.pattern(c.text(0), c.text(1))
			c.fits((len(c.text(1)) + 1) * (re.NumSubexp() + 1))
			for _, m := range re.FindAllStringSubmatch(c.text(1), int(c.int64(2))) {
				out = append(out, list(m))
			}
			return out
		},
		"regex.replace": func(c *call) any {
			re, s, with := c.pattern(c.text(1), c.text(0)), c.text(0), c.text(2)
			// Each match may be replaced by itself several times over.
			c.fits((len(s) + 1) * (len(with) + 1))
			if n := strings.Count(with, "$"); n > 0 {
				c.fits((n + 1) * (len(s) + 1) * 4)
			}
			return re.ReplaceAllString(s, with)
		},
		"regex.template_match": func(c *call) any {
			open, end := c.text(2), c.text(3)
			if len(open) != 1 || len(end) != 1 {
				none()
			}
			pattern, ok := template(c.text(0), open[0], end[0])
			if !ok {
				none()
			}
			return c.pattern(pattern, c.text(1)).MatchString(c.text(1))
		},
		"glob.match":      globMatch,
		"glob.quote_meta": globQuote,
	}
}

// globMatch has as delimiters a dot if there are none, and none for null.
func globMatch(c *call) any {
	delimiters := "."
	switch v := c.arg(1).(type) {
	case nil:
		delimiters = ""
	case []any:
		if len(v) > 0 {
			delimiters = ""
		}
		for _, d := range c.texts(1)[:min(len(v), longestPattern)] {
			if utf8.RuneCountInString(d) != 1 {
				none()
			}
			delimiters += d
		}
	default:
		none()
	}
	pattern, ok := glob(c.text(0), delimiters)
	if !ok {
		none()
	}
	return c.pattern(pattern, c.text(2)).MatchString(c.text(2))
}

func globQuote(c *call) any {
	var b strings.Builder
	for _, r := range c.text(0) {
		if strings.ContainsRune(`*?\[]{}`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

const (
	longestPattern = 4096
	// heaviest is how large a compiled pattern may be, in instructions: a few
	// bytes that repeat each other can make a very large one.
	heaviest = 20_000
)

// pattern compiles a regular expression, and pays for going through a text with
// it: Go's take a time that grows with the product of the sizes.
func (c *call) pattern(pattern, text string) *regexp.Regexp {
	re, size, ok := c.compile(pattern)
	if !ok {
		none()
	}
	c.pay(len(text), 8+4*size)
	return re
}

func (c *call) compile(pattern string) (re *regexp.Regexp, size int, ok bool) {
	if len(pattern) > longestPattern {
		return nil, 0, false
	}
	c.pay(len(pattern), 100)
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, false
	}
	if size = weight(tree); size > heaviest {
		return nil, 0, false
	}
	c.pay(size, 100)
	re, err = regexp.Compile(pattern)
	return re, size, err == nil
}

// weight is about how many instructions a pattern becomes.
func weight(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += weight(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, heaviest+1)
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for n, s := range texts {
		out[n] = s
	}
	return out
}

// template makes a regular expression of a text with such expressions between
// delimiters.
func template(s string, open, end byte) (string, bool) {
	var b strings.Builder
	b.WriteString("^")
	for s != "" {
		n := strings.IndexByte(s, open)
		if n < 0 {
			if strings.IndexByte(s, end) >= 0 {
				return "", false
			}
			b.WriteString(regexp.QuoteMeta(s))
			break
		}
		b.WriteString(regexp.QuoteMeta(s[:n]))
		depth, m := 1, n+1
		for ; m < len(s) && depth > 0; m++ {
			switch s[m] {
			case end:
				depth--
			case open:
				depth++
			}
		}
		if depth > 0 {
			return "", false
		}
		b.WriteString("(" + s[n+1:m-1] + ")")
		s = s[m:]
	}
	return b.String() + "$", true
}

// glob makes a regular expression of a glob: * and ? do not match delimiters,
// ** does.
func glob(s, delimiters string) (string, bool) {
	const mostDelimiters = 64
	if len(s) > longestPattern || len(delimiters) > mostDelimiters {
		return "", false
	}
	other := `.`
	if delimiters != "" {
		other = `[^` + regexp.QuoteMeta(delimiters) + `]`
		other = strings.ReplaceAll(other, "-", `\-`)
	}
	var b strings.Builder
	b.WriteString(`(?s)^`)
	depth := 0
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		switch r {
		case '\\':
			r, size = utf8.DecodeRuneInString(s)
			if size == 0 {
				return "", false
			}
			s = s[size:]
			b.WriteString(regexp.QuoteMeta(string(r)))
		case '*':
			rest := strings.TrimLeft(s, "*")
			if rest != s {
				b.WriteString(`.*`)
			} else {
				b.WriteString(other + `*`)
			}
			s = rest
		case '?':
			b.WriteString(other)
		case '{':
			depth++
			b.WriteString(`(?:`)
		case '}':
			if depth--; depth < 0 {
				return "", false
			}
			b.WriteString(`)`)
		case ',':
			if depth > 0 {
				b.WriteString(`|`)
			} else {
				b.WriteString(`,`)
			}
		case '[':
			class, rest, ok := globClass(s)
			if !ok {
				return "", false
			}
			b.WriteString(class)
			s = rest
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return b.String() + `$`, depth == 0
}

// globClass reads what follows an opening bracket.
func globClass(s string) (class, rest string, ok bool) {
	not := ""
	if strings.HasPrefix(s, "!") {
		s, not = s[1:], "^"
	}
	n := strings.IndexByte(s, ']')
	if n <= 0 {
		return "", "", false
	}
	in, rest := s[:n], s[n+1:]
	if r := []rune(in); len(r) == 3 && r[1] == '-' {
		return "[" + not + regexp.QuoteMeta(string(r[0])) + "-" + regexp.QuoteMeta(string(r[2])) + "]", rest, true
	}
	return "[" + not + strings.ReplaceAll(regexp.QuoteMeta(in), "-", `\-`) + "]", rest, true
}
