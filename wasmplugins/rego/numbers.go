package rego

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

func numberBuiltins() map[string]builtin {
	return map[string]builtin{
		"numbers.range":      func(c *call) any { return c.numbers(1) },
		"numbers.range_step": func(c *call) any { return c.numbers(c.int64(2)) },
		"units.parse_bytes":  func(c *call) any { return quantity(strings.ToLower(c.text(0)), bytesUnit, true) },
		"units.parse":        func(c *call) any { return quantity(c.text(0), anyUnit, false) },
		"rand.intn": func(c *call) any {
			n := c.int64(1)
			if n < 0 {
				n = -n
			}
			if n <= 0 {
				return integer(0)
			}
			var b [8]byte
			c.i.Random(b[:])
			return integer(int64(binary.LittleEndian.Uint64(b[:]) >> 1 % uint64(n)))
		},
		"uuid.rfc4122": func(c *call) any {
			var b [16]byte
			c.i.Random(b[:])
			b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
			h := hex.EncodeToString(b[:])
			return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		},
		"semver.is_valid": func(c *call) any {
			s, ok := c.arg(0).(string)
			if !ok {
				return false
			}
			_, ok = parseVersion(s)
			return ok
		},
		"semver.compare": func(c *call) any {
			a, okA := parseVersion(c.text(0))
			b, okB := parseVersion(c.text(1))
			if !okA || !okB {
				none()
			}
			return integer(int64(a.compare(b)))
		},
		"opa.runtime": func(*call) any { return object{} },
	}
}

// numbers is the array from the first argument to the second.
func (c *call) numbers(step int64) any {
	const most = 100_000
	from, to := c.int64(0), c.int64(1)
	if step <= 0 {
		none()
	}
	span := new(big.Int).Sub(big.NewInt(to), big.NewInt(from))
	count := span.Abs(span).Div(span, big.NewInt(step))
	if !count.IsInt64() || count.Int64() > most {
		c.fits(-1)
	}
	c.pay(int(count.Int64()), 8)
	out := []any{}
	for n := range count.Int64() + 1 {
		if from <= to {
			out = append(out, integer(from+n*step))
		} else {
			out = append(out, integer(from-n*step))
		}
	}
	return out
}

// quantity reads a number with a unit, and cuts it to a whole one if wanted.
func quantity(s string, unit func(string) (*big.Rat, bool), whole bool) any {
	s = strings.ReplaceAll(s, `"`, "")
	n := 0
	for n < len(s) && strings.IndexByte("0123456789.eE+-", s[n]) >= 0 {
		// An e is the beginning of a unit unless an exponent follows.
		if (s[n] == 'e' || s[n] == 'E') && (n+1 == len(s) || strings.IndexByte("0123456789+-", s[n+1]) < 0) {
			break
		}
		n++
	}
	const longest = 64
	if n == 0 || n > longest || !smallExponent(s[:n]) {
		none()
	}
	number, ok := new(big.Rat).SetString(s[:n])
	if !ok {
		none()
	}
	factor, ok := unit(s[n:])
	if !ok {
		none()
	}
	number.Mul(number, factor)
	if number.IsInt() {
		return json.Number(number.Num().String())
	}
	if whole {
		return json.Number(new(big.Int).Quo(number.Num(), number.Denom()).String())
	}
	return json.Number(number.FloatString(10))
}

func smallExponent(s string) bool {
	_, exponent, ok := strings.Cut(strings.ToLower(s), "e")
	if !ok {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && n > -400 && n < 400
}

func power(base, exponent int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil))
}

func bytesUnit(s string) (*big.Rat, bool) {
	if len(s) > 1 {
		s = strings.TrimSuffix(s, "b")
	}
	base := int64(1000)
	if rest, ok := strings.CutSuffix(s, "i"); ok {
		s, base = rest, 1024
	}
	if s == "" {
		return power(1, 1), base == 1000
	}
	n := strings.Index("kmgtpe", s)
	if n < 0 || len(s) != 1 {
		return nil, false
	}
	return power(base, int64(n)+1), true
}

func anyUnit(s string) (*big.Rat, bool) {
	if s == "" {
		return power(1, 1), true
	}
	if s == "m" {
		return big.NewRat(1, 1000), true
	}
	base := int64(1000)
	if rest, ok := strings.CutSuffix(strings.ToLower(s), "i"); ok {
		s, base = rest, 1024
	}
	n := strings.Index("kmgtpe", strings.ToLower(s))
	if n < 0 || len(s) != 1 {
		return nil, false
	}
	return power(base, int64(n)+1), true
}

// A version is a semantic one.
type version struct {
	core [3]*big.Int
	pre  []string
}

// versionPattern is that of the specification, with the v that many write.
var versionPattern = func() *regexp.Regexp { //nolint:gochecknoglobals // a constant in all but name
	const (
		number = `(0|[1-9]\d*)`
		part   = `(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)`
		build  = `[0-9A-Za-z-]+`
	)
	return regexp.MustCompile(`^v?` + number + `\.` + number + `\.` + number + `(?:-(` + part + `(?:\.` + part + `)*))?(?:\+` + build + `(?:\.` + build + `)*)?$`)
}()

func parseVersion(s string) (version, bool) {
	const longest = 256
	m := versionPattern.FindStringSubmatch(s)
	if m == nil || len(s) > longest {
		return version{}, false
	}
	var v version
	for n := range v.core {
		v.core[n], _ = new(big.Int).SetString(m[n+1], 10)
	}
	if m[4] != "" {
		v.pre = strings.Split(m[4], ".")
	}
	return v, true
}

func (v version) compare(w version) int {
	for n := range v.core {
		if c := v.core[n].Cmp(w.core[n]); c != 0 {
			return c
		}
	}
	if len(v.pre) == 0 || len(w.pre) == 0 { // without is later than with
		return min(len(w.pre), 1) - min(len(v.pre), 1)
	}
	for n := range min(len(v.pre), len(w.pre)) {
		if c := comparePart(v.pre[n], w.pre[n]); c != 0 {
			return c
		}
	}
	return max(min(len(v.pre)-len(w.pre), 1), -1)
}

// comparePart compares two parts of a pre-release: numbers come first.
func comparePart(a, b string) int {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return compareNumbers(json.Number(strconv.FormatUint(x, 10)), json.Number(strconv.FormatUint(y, 10)))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}
