package rego

import (
	"encoding/json"
	"time"
)

func timeBuiltins() map[string]builtin {
	return map[string]builtin{
		"time.now_ns": func(c *call) any { return integer(c.i.Now().UnixNano()) },
		"time.parse_ns": func(c *call) any {
			layout := c.text(0)
			if named, ok := layoutNamed(layout); ok {
				layout = named
			}
			t, err := time.Parse(layout, c.text(1))
			c.must(err)
			return nanos(t)
		},
		"time.parse_rfc3339_ns": func(c *call) any {
			t, err := time.Parse(time.RFC3339, c.text(0))
			c.must(err)
			return nanos(t)
		},
		"time.parse_duration_ns": func(c *call) any {
			d, err := time.ParseDuration(c.text(0))
			c.must(err)
			return integer(int64(d))
		},
		"time.date": func(c *call) any {
			y, m, d := c.time(0).Date()
			return integers(y, int(m), d)
		},
		"time.clock": func(c *call) any {
			h, m, s := c.time(0).Clock()
			return integers(h, m, s)
		},
		"time.weekday": func(c *call) any { return c.time(0).Weekday().String() },
		"time.add_date": func(c *call) any {
			return nanos(c.time(0).AddDate(int(c.int64(1)), int(c.int64(2)), int(c.int64(3))))
		},
		"time.diff": func(c *call) any { return difference(c.time(0), c.time(1)) },
		"time.format": func(c *call) any {
			layout := time.RFC3339Nano
			if a, ok := c.arg(0).([]any); ok && len(a) == 3 {
				if layout, ok = a[2].(string); !ok {
					none()
				}
				if named, ok := layoutNamed(layout); ok {
					layout = named
				}
			}
			c.fits(64 * (len(layout) + 1))
			return c.time(0).Format(layout)
		},
	}
}

// nanos is a time as Rego has it, if it can.
func nanos(t time.Time) any {
	if y := t.Year(); y < 1678 || y > 2261 {
		none()
	}
	return integer(t.UnixNano())
}

func integers(ns ...int) []any {
	out := make([]any, len(ns))
	for n, v := range ns {
		out[n] = integer(int64(v))
	}
	return out
}

// time reads nanoseconds, or an array of them and a time zone.
func (c *call) time(n int) time.Time {
	v := c.arg(n)
	zone := time.UTC
	if a, ok := v.([]any); ok {
		if len(a) == 0 {
			none()
		}
		v = a[0]
		if len(a) > 1 {
			name, ok := a[1].(string)
			if !ok {
				none()
			}
			if name != "" && name != "UTC" && name != "Local" { // the host's zone is no business of a policy's
				var err error
				c.i.Charge(100_000) // a file is read
				zone, err = time.LoadLocation(name)
				c.must(err)
			}
		}
	}
	ns, ok := v.(json.Number)
	if !ok {
		none()
	}
	return time.Unix(0, toInt(ns)).In(zone)
}

// difference is the years, months, days, hours, minutes and seconds between two
// times.
func difference(a, b time.Time) any {
	if a.Location() != b.Location() {
		b = b.In(a.Location())
	}
	if a.After(b) {
		a, b = b, a
	}
	y1, m1, d1 := a.Date()
	y2, m2, d2 := b.Date()
	h1, min1, s1 := a.Clock()
	h2, min2, s2 := b.Clock()
	year, month, day := y2-y1, int(m2-m1), d2-d1
	hour, minute, second := h2-h1, min2-min1, s2-s1
	if second < 0 {
		second, minute = second+60, minute-1
	}
	if minute < 0 {
		minute, hour = minute+60, hour-1
	}
	if hour < 0 {
		hour, day = hour+24, day-1
	}
	if day < 0 {
		// The month of the first time is that which is not full.
		day += time.Date(y1, m1+1, 0, 0, 0, 0, 0, time.UTC).Day()
		month--
	}
	if month < 0 {
		month, year = month+12, year-1
	}
	return integers(year, month, day, hour, minute, second)
}

// layoutNamed returns a layout of Go's by its name.
func layoutNamed(name string) (string, bool) {
	layout, ok := map[string]string{
		"ANSIC": time.ANSIC, "UnixDate": time.UnixDate, "RubyDate": time.RubyDate, "RFC822": time.RFC822, "RFC822Z": time.RFC822Z,
		"RFC850": time.RFC850, "RFC1123": time.RFC1123, "RFC1123Z": time.RFC1123Z, "RFC3339": time.RFC3339, "RFC3339Nano": time.RFC3339Nano,
	}[name]
	return layout, ok
}
