package engine

import (
	"bytes"
	"strings"
)

// A Level is how much a line of output matters.
type Level uint8

// The levels of proa.log. WASI's stdout is Notice, stderr is Warn.
const (
	Debug Level = iota
	Notice
	Warn
	Err
)

// output keeps what a guest writes during one use, up to a limit.
type output struct {
	left    int
	dropped int
	b       []byte
	parts   []part
}

type part struct {
	level Level
	end   int
}

func (o *output) reset(limit int) {
	o.left, o.dropped = limit, 0
	o.b, o.parts = o.b[:0], o.parts[:0]
}

func (o *output) write(l Level, b []byte) {
	if len(b) > o.left {
		o.dropped += len(b) - o.left
		b = b[:o.left]
	}
	if len(b) == 0 {
		return
	}
	o.left -= len(b)
	o.b = append(o.b, b...)
	if n := len(o.parts); n > 0 && o.parts[n-1].level == l {
		o.parts[n-1].end = len(o.b)
	} else {
		o.parts = append(o.parts, part{l, len(o.b)})
	}
}

// flush hands the lines over.
func (o *output) flush(log func(Level, []byte)) {
	if log == nil || len(o.b) == 0 {
		return
	}
	start := 0
	for _, p := range o.parts {
		for line := range bytes.SplitSeq(bytes.TrimRight(o.b[start:p.end], "\n"), []byte("\n")) {
			log(p.level, line)
		}
		start = p.end
	}
	if o.dropped > 0 {
		log(Warn, []byte("more output was dropped: the limit for a call is reached"))
	}
}

// reason returns what a guest said about its own end: the line of a panic, or
// the last one.
func (o *output) reason() string {
	const longest = 200
	var last string
	for line := range strings.Lines(string(o.b)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		last = line
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			break
		}
	}
	if len(last) > longest {
		last = last[:longest] + "..."
	}
	return strings.ToValidUTF8(last, "?")
}
