package reconcile

// Loops returns how many loops run.
func (p *Point) Loops() int { return len(p.snapshot()) }
