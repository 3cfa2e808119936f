package controlplane

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/proa-project/proa/httpapi/request"
)

// A loopback gives the components of this process tokens that live as long as
// it does, and verifies them.
type loopback struct {
	mu    sync.RWMutex // guards users
	users map[string]*request.User
}

func newLoopback() *loopback { return &loopback{users: map[string]*request.User{}} }

// token returns a new token for a component.
func (l *loopback) token(component string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := "loopback-" + rand.Text()
	l.users[t] = &request.User{Name: "system:proa:" + component, Groups: []string{request.Masters, request.Authenticated}}
	return t
}

// VerifyToken implements authn.TokenVerifier.
func (l *loopback) VerifyToken(_ context.Context, token string) (*request.User, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.users[token], nil
}

// A lateHandler is a handler that is known only after others were given it.
type lateHandler struct {
	handler atomic.Pointer[http.Handler]
}

func (l *lateHandler) set(h http.Handler) { l.handler.Store(&h) }

func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := l.handler.Load()
	if h == nil {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	(*h).ServeHTTP(w, r)
}
