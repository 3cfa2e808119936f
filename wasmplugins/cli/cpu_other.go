//go:build !unix

package cli

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
