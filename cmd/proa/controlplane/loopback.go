package controlplane

import (
	"crypto/rand"
	"net/http"
	"sync/atomic"

	"github.com/proa-project/proa/httpapi/request"
)

// loopback are the tokens of the components in this process, by name. They
// live as long as the process.
type loopback map[string]string

// components are who gets a token.
func components() []string {
	return []string{"informers", "plugin-host", "controllers", "scheduler", "simulated-nodes", "agent", "roles"}
}

func newLoopback() loopback {
	l := loopback{}
	for _, name := range components() {
		l[name] = "loopback-" + rand.Text()
	}
	return l
}

// users returns who a token stands for.
func (l loopback) users() map[string]*request.User {
	users := map[string]*request.User{}
	for name, token := range l {
		users[token] = &request.User{Name: "system:proa:" + name, Groups: []string{request.Masters}}
	}
	return users
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
