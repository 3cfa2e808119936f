package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/proa-project/proa/wasmplugins/cli"
)

// TestDocumentation: each "proa plugin" that the documentation shows is one that
// there is, with flags that it has, and every link goes somewhere.
func TestDocumentation(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../../examples/plugins/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)proa plugin ([a-z]+)([^`#\n(&|]*)")
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	seen := 0
	for _, file := range append(files, examples...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		joined := strings.NewReplacer("\\\n", " ", "--module\n", "--module ").Replace(string(text))
		for _, m := range command.FindAllStringSubmatch(joined, -1) {
			c, _, err := cli.Command().Find([]string{m[1]})
			if err != nil {
				t.Errorf("%s: %s: %v", file, m[0], err)
				continue
			}
			args := strings.Fields(strings.NewReplacer("`", "", `"$`, " x").Replace(m[2]))
			if err := c.ParseFlags(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
				t.Errorf("%s: %s: %v", file, m[0], err)
			}
			seen++
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: the link %s goes nowhere", file, m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d commands", seen)
	}
}
