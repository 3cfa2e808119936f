package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is how long the calling thread has been running.
func threadTime() (time.Duration, bool) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
