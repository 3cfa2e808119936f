package webhook_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connCounter counts connections.
func connCounter(n *atomic.Int32) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.Add(1)
		}
	}
}

// quiet is where servers tell of handshakes that are meant to fail.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
