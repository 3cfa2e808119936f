// Command summary reads the output of "go test -json" and prints what a person
// wants of it: a line per package, the output of what failed, and the counts.
// It exits with 1 if anything failed or nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// An event is one line of test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// counts is the outcome of a run.
type counts struct{ passed, failed, skipped int }

func main() {
	c, err := summarize(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
}

// summarize copies what matters from in to out and counts the tests.
func summarize(in io.Reader, out io.Writer) (counts, error) {
	var c counts
	output := map[string]*strings.Builder{}
	keep := func(key, text string) {
		b := output[key]
		if b == nil {
			b = &strings.Builder{}
			output[key] = b
		}
		b.WriteString(text)
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(out, "%s", line) // not an event: a build error, say
				continue
			}
			key := e.Package + e.ImportPath + " " + e.Test
			switch e.Action {
			case "output", "build-output":
				keep(key, e.Output)
			case "build-fail":
				c.failed++
				fmt.Fprintf(out, "%s", output[key])
			case "pass", "skip":
				if e.Test == "" {
					fmt.Fprintf(out, "%-4s %s (%.1fs)\n", e.Action, e.Package, e.Elapsed)
				} else if e.Action == "pass" {
					c.passed++
				} else {
					c.skipped++
					fmt.Fprintf(out, "%s", output[key])
				}
				delete(output, key)
			case "fail":
				c.failed++
				if e.Test == "" {
					fmt.Fprintf(out, "FAIL %s (%.1fs)\n", e.Package, e.Elapsed)
				}
				if b := output[key]; b != nil {
					fmt.Fprintf(out, "%s", b)
				}
				delete(output, key)
			}
		}
		if err == io.EOF {
			fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("read test events: %w", err)
		}
	}
}
