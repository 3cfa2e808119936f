package streaming

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sample = `2026-01-01T00:00:00.000000001Z stdout F one
2026-01-01T00:00:01.000000001Z stderr F oops
2026-01-01T00:00:02.000000001Z stdout P a long 
2026-01-01T00:00:02.000000002Z stdout F line
2026-01-01T00:00:03.000000001Z stdout F 
2026-01-01T00:00:04.000000001Z stdout F last
`

func read(t *testing.T, text string, o LogOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := ReadLog(t.Context(), &out, path, o, nil); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReadLog(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }
	tests := []struct {
		name string
		o    LogOptions
		want string
	}{
		{"all", LogOptions{Tail: -1}, "one\noops\na long line\n\nlast\n"},
		{"tail", LogOptions{Tail: 2}, "\nlast\n"},
		{"tail of none", LogOptions{Tail: 0}, ""},
		{"tail of more than there is", LogOptions{Tail: 100}, "one\noops\na long line\n\nlast\n"},
		{"one stream", LogOptions{Tail: -1, Stream: "stderr"}, "oops\n"},
		{"since", LogOptions{Tail: -1, Since: at(3)}, "\nlast\n"},
		{"limit", LogOptions{Tail: -1, Limit: 6}, "one\noo"},
		{"limit at a line's end", LogOptions{Tail: -1, Limit: 4}, "one\n"},
		{
			"timestamps",
			LogOptions{Tail: -1, Timestamps: true, Since: at(2)},
			"2026-01-01T00:00:02.000000001Z a long line\n2026-01-01T00:00:03.000000001Z \n2026-01-01T00:00:04.000000001Z last\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(t, sample, tt.o); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	t.Run("rubbish", func(t *testing.T) {
		if got := read(t, "no log\n\n\x00\xff\nx stdout F fine\nunfinished", LogOptions{Tail: -1}); got != "fine\n" {
			t.Errorf("%q", got)
		}
	})
}

// TestTail compares the tail with that of a twin that reads everything.
func TestTail(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var lines []string
		for i := range rapid.IntRange(0, 400).Draw(t, "lines") {
			line := fmt.Sprint(i, strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "length")))
			lines = append(lines, line+"\n")
			text.WriteString("2026-01-01T00:00:00Z stdout F " + line + "\n")
		}
		path := filepath.Join(dir, "log")
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(0, 500).Draw(t, "tail")
		var out bytes.Buffer
		if err := ReadLog(context.Background(), &out, path, LogOptions{Tail: int64(n)}, nil); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(lines[max(0, len(lines)-n):], ""); out.String() != want {
			t.Fatalf("tail %d of %d lines: %d bytes, want %d", n, len(lines), out.Len(), len(want))
		}
	})
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	asked := 0
	running := func(context.Context) bool {
		// the container writes its last line and ends between two looks
		asked++
		fmt.Fprintf(f, "2026-01-01T00:00:00Z stdout F line %d\n", asked)
		return asked < 2
	}
	var out bytes.Buffer
	if err := ReadLog(t.Context(), &out, path, LogOptions{Tail: -1, Follow: true}, running); err != nil {
		t.Fatal(err)
	}
	if out.String() != "line 1\nline 2\n" {
		t.Errorf("%q", out.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ReadLog(ctx, &out, path, LogOptions{Tail: 0, Follow: true}, func(context.Context) bool { return true }); err != nil {
		t.Errorf("the client went away: %v", err)
	}
}
