package streaming

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// LogOptions says which part of a log to read, and how.
type LogOptions struct {
	// Follow goes on until the container has ended.
	Follow bool
	// Tail is how many of the last lines to read; negative is all.
	Tail int64
	// Since leaves out what is older.
	Since time.Time
	// Timestamps puts its time before each line.
	Timestamps bool
	// Limit is how many bytes to write at most; 0 is no limit.
	Limit int64
	// Stream is "stdout" or "stderr" for one of them; "" is both.
	Stream string
}

const (
	followPoll  = 50 * time.Millisecond
	runningPoll = 500 * time.Millisecond
)

// errLimit ends a log that has reached its limit.
var errLimit = errors.New("limit of bytes reached")

// ReadLog writes a log file of CRI to w. With Follow it waits for more for as
// long as running says that the container runs.
func ReadLog(ctx context.Context, w io.Writer, path string, o LogOptions, running func(context.Context) bool) error {
	f, err := os.Open(path) // the log of a container
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if o.Tail >= 0 {
		if err = seekTail(f, o.Tail); err != nil {
			return err
		}
	}
	out := &logPrinter{w: w, o: o, left: o.Limit, bol: true}
	err = out.copy(ctx, f, running)
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// seekTail sets the file to where its last n lines begin.
func seekTail(f *os.File, n int64) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return err
	}
	const block = 16 << 10
	buf := make([]byte, block)
	var lines int64
	for end := size; end > 0; {
		start := max(0, end-block)
		b := buf[:end-start]
		if _, err = f.ReadAt(b, start); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i, v := range slices.Backward(b) {
			if v != '\n' {
				continue
			}
			if at := start + int64(i) + 1; at < size { // not the end of the last line
				if lines++; lines == n {
					_, err = f.Seek(at, io.SeekStart)
					return err
				}
			}
		}
		end = start
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// A logPrinter turns the lines of a log file into what the container wrote.
type logPrinter struct {
	w    io.Writer
	o    LogOptions
	left int64
	bol  bool // at the beginning of a line: the last one written was whole
}

func (p *logPrinter) copy(ctx context.Context, f *os.File, running func(context.Context) bool) error {
	var pending []byte // a line that is not complete
	buf := make([]byte, 32<<10)
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	idle, last := time.Duration(0), false
	for {
		n, err := f.Read(buf)
		if n > 0 {
			idle = 0
			pending = append(pending, buf[:n]...)
			rest, failed := p.lines(pending)
			if failed != nil {
				return failed
			}
			pending = append(pending[:0], rest...)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !p.o.Follow || last {
			return p.flush()
		}
		if err := p.flush(); err != nil {
			return err
		}
		if idle += followPoll; idle >= runningPoll {
			idle = 0
			last = !running(ctx) // then read once more what came before its end
			continue
		}
		select {
		case <-ctx.Done():
			return nil // the client has gone
		case <-poll.C:
		}
	}
}

func (p *logPrinter) flush() error {
	if f, ok := p.w.(interface{ Flush() }); ok {
		f.Flush()
	}
	return nil
}

// lines writes the whole lines of b and returns the rest.
func (p *logPrinter) lines(b []byte) ([]byte, error) {
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return b, nil
		}
		if err := p.line(b[:end]); err != nil {
			return nil, err
		}
		b = b[end+1:]
	}
}

// line writes one line of the file: TIME STREAM TAG TEXT. A tag of P means that
// the text goes on in the next line. Anything else is skipped.
func (p *logPrinter) line(b []byte) error {
	stamp, rest, ok1 := bytes.Cut(b, []byte(" "))
	stream, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tag, text, ok3 := bytes.Cut(rest, []byte(" "))
	if !ok1 || !ok2 {
		return nil
	}
	if !ok3 { // an empty line has no space after the tag
		text = nil
	}
	if p.o.Stream != "" && string(stream) != p.o.Stream {
		return nil
	}
	if !p.o.Since.IsZero() {
		t, err := time.Parse(time.RFC3339Nano, string(stamp))
		if err != nil || t.Before(p.o.Since) {
			return nil //nolint:nilerr // a line without a time is no line of a log
		}
	}
	first, _, _ := bytes.Cut(tag, []byte(":"))
	partial := string(first) == "P"
	if p.o.Timestamps && p.bol {
		if err := p.write(append(slices.Clip(stamp), ' ')); err != nil {
			return err
		}
	}
	p.bol = !partial
	if !partial {
		text = append(slices.Clip(text), '\n')
	}
	return p.write(text)
}

func (p *logPrinter) write(b []byte) error {
	over := false
	if p.o.Limit > 0 {
		if int64(len(b)) >= p.left {
			b, over = b[:p.left], true
		}
		p.left -= int64(len(b))
	}
	if _, err := p.w.Write(b); err != nil {
		return err
	}
	if over {
		return errLimit
	}
	return nil
}
