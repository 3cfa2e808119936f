// A policy for Kubewarden in plain Go, which speaks waPC without a kit. Its
// setting "do" says what it does with a request.
package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unsafe"
)

//go:wasmimport wapc __guest_request
func guestRequest(op, payload unsafe.Pointer)

//go:wasmimport wapc __guest_response
func guestResponse(p unsafe.Pointer, n uint32)

//go:wasmimport wapc __guest_error
func guestError(p unsafe.Pointer, n uint32)

//go:wasmimport wapc __console_log
func consoleLog(p unsafe.Pointer, n uint32)

//go:wasmimport wapc __host_call
func hostCall(b unsafe.Pointer, bn uint32, ns unsafe.Pointer, nsn uint32, op unsafe.Pointer, opn uint32, p unsafe.Pointer, pn uint32) uint32

//go:wasmimport wapc __host_response_len
func hostResponseLen() uint32

//go:wasmimport wapc __host_response
func hostResponse(p unsafe.Pointer)

//go:wasmimport wapc __host_error_len
func hostErrorLen() uint32

//go:wasmimport wapc __host_error
func hostError(p unsafe.Pointer)

func at(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

func host(namespace, operation, payload string) (string, error) {
	b, bn := at([]byte("kubewarden"))
	ns, nsn := at([]byte(namespace))
	op, opn := at([]byte(operation))
	p, pn := at([]byte(payload))
	if hostCall(b, bn, ns, nsn, op, opn, p, pn) == 1 {
		out := make([]byte, hostResponseLen()+1)
		hostResponse(unsafe.Pointer(&out[0]))
		return string(out[:len(out)-1]), nil
	}
	out := make([]byte, hostErrorLen()+1)
	hostError(unsafe.Pointer(&out[0]))
	return "", fmt.Errorf("%s", out[:len(out)-1])
}

type settings struct {
	Do        string `json:"do"`
	Namespace string `json:"namespace"`
	Operation string `json:"operation"`
	Payload   string `json:"payload"`
}

type request struct {
	Request struct {
		UID    string         `json:"uid"`
		Object map[string]any `json:"object"`
	} `json:"request"`
	Settings settings `json:"settings"`
}

//go:wasmexport __guest_call
func guestCall(opLen, payloadLen uint32) uint32 {
	op, payload := make([]byte, opLen+1), make([]byte, payloadLen+1)
	guestRequest(unsafe.Pointer(&op[0]), unsafe.Pointer(&payload[0]))
	reply, err := answer(string(op[:opLen]), payload[:payloadLen])
	if err != nil {
		guestError(at([]byte(err.Error())))
		return 0
	}
	guestResponse(at(reply))
	return 1
}

func answer(op string, payload []byte) ([]byte, error) {
	switch op {
	case "protocol_version":
		return []byte(`"v1"`), nil
	case "validate_settings":
		var s settings
		if err := json.Unmarshal(payload, &s); err != nil || s.Do == "" {
			return []byte(`{"valid":false,"message":"do must say what to do"}`), nil
		}
		return []byte(`{"valid":true}`), nil
	case "validate":
		var r request
		if err := json.Unmarshal(payload, &r); err != nil {
			return nil, err
		}
		return json.Marshal(validate(r))
	}
	return nil, fmt.Errorf("unknown operation %s", op)
}

func validate(r request) map[string]any {
	metadata, _ := r.Request.Object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	switch r.Settings.Do {
	case "require":
		if labels["team"] == nil {
			return map[string]any{"accepted": false, "code": 422, "message": "the label team is missing", "warnings": []string{"see the handbook"}}
		}
		return map[string]any{"accepted": true, "audit_annotations": map[string]string{"team": fmt.Sprint(labels["team"])}}
	case "add":
		if labels == nil {
			labels = map[string]any{}
			metadata["labels"] = labels
		}
		labels["team"] = "core"
		return map[string]any{"accepted": true, "mutated_object": r.Request.Object}
	case "host":
		got, err := host(r.Settings.Namespace, r.Settings.Operation, r.Settings.Payload)
		if err != nil {
			return map[string]any{"accepted": false, "message": err.Error()}
		}
		return map[string]any{"accepted": true, "warnings": []string{got}}
	case "log":
		consoleLog(at([]byte("on the console")))
		fmt.Println("on the standard output")
		if _, err := host("tracing", "log", `{"level":"error","message":"traced"}`); err != nil {
			panic(err)
		}
	case "panic":
		panic("as told")
	case "spin":
		for n := 0; ; n++ {
		}
	case "big":
		return map[string]any{"accepted": true, "warnings": []string{strings.Repeat("x", 10<<20)}}
	}
	return map[string]any{"accepted": true}
}

func main() {}
