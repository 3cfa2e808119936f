package wasmplugins

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
)

// A pluginState is what runs for one AdmissionPlugin. It outlives changes of
// the object.
type pluginState struct {
	name    string
	metrics *pluginMetrics
	running atomic.Pointer[running]

	// The fields below belong to whoever syncs the plugin.
	binding    *binding // guarded by Host.mu too, since the table is made of them
	programKey string   // of the running plugin
	failedKey  string   // of a plugin that cannot be started, however often

	mu         sync.Mutex // guards the fields below
	generation int64      // of the object that was looked at last
	digest     string     // of the running plugin's module
	problem    *problem
	failures   int64 // not yet in the object's status
	last       failure
	written    time.Time // of the last status with failures
}

// running is a plugin, or why there is none.
type running struct {
	plugin *native.Plugin
	why    string
}

// removed is why a plugin that was deleted does not run: it has no say.
const removed = "removed"

// A problem is why a plugin is not what its object says.
type problem struct{ reason, message string }

// A failure is a call without an answer.
type failure struct {
	at             time.Time
	reason, detail string
}

func newPluginState(name string, m *pluginMetrics) *pluginState {
	s := &pluginState{name: name, metrics: m}
	s.running.Store(&running{why: "the plugin is not loaded yet"})
	return s
}

// get returns the running plugin, or why there is none.
func (s *pluginState) get() (*native.Plugin, string) {
	r := s.running.Load()
	return r.plugin, r.why
}

// swap puts a plugin in place and closes the one before, once its calls have
// ended.
func (s *pluginState) swap(p *native.Plugin, why string) {
	old := s.running.Swap(&running{plugin: p, why: why})
	if old.plugin != nil {
		old.plugin.Close()
	}
}

// looked notes the outcome of a sync.
func (s *pluginState) looked(generation int64, p *problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation, s.problem = generation, p
}

func (s *pluginState) note(reason, detail string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	s.last = failure{at, reason, detail}
}

// statusDelay is how long to wait before failures are written again.
func (s *pluginState) statusDelay(interval time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.written.Add(interval)))
}

// A moduleState is what was found in a WasmModule.
type moduleState struct {
	generation int64
	digest     string // of the content, "" for none
	code       *codeRef
	abi        string
	problem    *problem
	final      bool // trying again is of no use
}

// A codeRef counts who uses a code.
type codeRef struct {
	*engine.Code
	users int // guarded by Host.mu
}

// acquire and release are called with Host.mu held.
func (c *codeRef) acquire() *codeRef { c.users++; return c }

func (c *codeRef) release() {
	if c.users--; c.users == 0 {
		c.Close()
	}
}
