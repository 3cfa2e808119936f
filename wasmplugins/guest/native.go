//go:build !wasm

package guest

import "os"

// log writes to standard error when a plugin's functions are run outside of
// the server.
func log(_ int32, text string) { os.Stderr.WriteString(text + "\n") } //nolint:errcheck // output of tests

// Mock makes f answer Call when a plugin's functions are run outside of the
// server.
func Mock(f func(operation string, request []byte) ([]byte, error)) { mock = f }

var mock func(operation string, request []byte) ([]byte, error)

func hostCall(operation string, request []byte) ([]byte, bool) {
	if mock == nil {
		return []byte("there is no server to call"), false
	}
	b, err := mock(operation, request)
	if err != nil {
		return []byte(err.Error()), false
	}
	return b, true
}
