//go:build !wasm

package guest

import "os"

// log writes to standard error when a plugin's functions are run outside of
// the server.
func log(_ int32, text string) { os.Stderr.WriteString(text + "\n") } //nolint:errcheck // output of tests
