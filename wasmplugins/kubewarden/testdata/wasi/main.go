// A policy for Kubewarden that is a command. Its setting "do" says what it does
// with a request.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"
)

//go:wasmimport host call
func hostCall(b unsafe.Pointer, bn uint32, ns unsafe.Pointer, nsn uint32, op unsafe.Pointer, opn uint32, p unsafe.Pointer, pn uint32) uint32

func at(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

func host(namespace, operation, payload string) (string, error) {
	b, bn := at("kubewarden")
	ns, nsn := at(namespace)
	op, opn := at(operation)
	p, pn := at(payload)
	failed := hostCall(b, bn, ns, nsn, op, opn, p, pn) != 0
	reply, err := io.ReadAll(os.Stdin)
	if err == nil && failed {
		err = fmt.Errorf("%s", reply)
	}
	return string(reply), err
}

type request struct {
	Request struct {
		Object map[string]any `json:"object"`
	} `json:"request"`
	Settings struct {
		Do        string `json:"do"`
		Namespace string `json:"namespace"`
		Operation string `json:"operation"`
		Payload   string `json:"payload"`
	} `json:"settings"`
}

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil || len(os.Args) != 2 || os.Args[0] != "policy.wasm" {
		fmt.Fprintln(os.Stderr, "bad start:", os.Args, err)
		os.Exit(1)
	}
	var reply any = map[string]any{"valid": strings.Contains(string(input), `"do"`), "message": "do must say what to do"}
	if os.Args[1] == "validate" {
		var r request
		if err := json.Unmarshal(input, &r); err != nil {
			panic(err)
		}
		reply = validate(r)
	}
	if err := json.NewEncoder(os.Stdout).Encode(reply); err != nil {
		panic(err)
	}
}

func validate(r request) any {
	switch r.Settings.Do {
	case "add":
		metadata, _ := r.Request.Object["metadata"].(map[string]any)
		metadata["labels"] = map[string]any{"team": "core"}
		return map[string]any{"accepted": true, "mutated_object": r.Request.Object}
	case "deny":
		return map[string]any{"accepted": false, "message": "as told"}
	case "host":
		got, err := host(r.Settings.Namespace, r.Settings.Operation, r.Settings.Payload)
		if err != nil {
			return map[string]any{"accepted": false, "message": err.Error()}
		}
		return map[string]any{"accepted": true, "warnings": []string{got}}
	case "exit":
		fmt.Fprintln(os.Stderr, "about to exit")
		os.Exit(3)
	case "spin":
		for n := 0; ; n++ {
		}
	case "flood":
		fmt.Print(strings.Repeat("x", 10<<20))
	case "silent":
		os.Exit(0)
	case "chatty":
		fmt.Print("some words before ")
	}
	return map[string]any{"accepted": true}
}
