package podworker

import "time"

const (
	crashBase  = 10 * time.Second
	crashLimit = 5 * time.Minute
	// healthyAfter is how long an instance runs before its end is no longer
	// held against the next one.
	healthyAfter = 10 * time.Minute

	pullBase, pullLimit       = 10 * time.Second, 5 * time.Minute
	createBase, createLimit   = 2 * time.Second, 20 * time.Second
	sandboxBase, sandboxLimit = time.Second, 30 * time.Second
	volumeBase, volumeLimit   = 500 * time.Millisecond, 15 * time.Second
)

// doubling returns base, 2*base, 4*base and so on for n = 1, 2, 3, at most limit.
func doubling(n int, base, limit time.Duration) time.Duration {
	d := base
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}

// crashDelay returns how long after the end of c its next instance starts.
// The first restart comes at once.
func crashDelay(c *Container) time.Duration {
	n := nextStreak(c)
	if n <= 1 {
		return 0
	}
	return doubling(n-1, crashBase, crashLimit)
}

// nextStreak returns the Streak of the instance that follows c.
func nextStreak(c *Container) int {
	if !c.StartedAt.IsZero() && c.FinishedAt.Sub(c.StartedAt) >= healthyAfter {
		return 0
	}
	return c.Streak + 1
}
