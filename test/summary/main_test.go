package main

import (
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	in := `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"why it failed\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p","Elapsed":0.5}
{"Action":"pass","Package":"q","Elapsed":1}
`
	var out strings.Builder
	c, err := summarize(strings.NewReader(in), &out)
	if err != nil {
		t.Fatal(err)
	}
	// A package that fails counts too: it may have failed outside its tests.
	if want := (counts{passed: 1, failed: 2, skipped: 1}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	text := out.String()
	for _, want := range []string{"why it failed", "FAIL p", "pass q", "1 passed, 2 failed, 1 skipped"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "noise") {
		t.Errorf("output of a passed test in:\n%s", text)
	}
}
