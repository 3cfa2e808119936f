package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/proa-project/proa/test/cluster"
)

// A server is a process that is "proa server". It can be killed and started
// again on the same directory and address.
type server struct {
	dir, listen string
	args        []string
	binary      string // "" is this binary

	cmd  *exec.Cmd
	done chan struct{}
	log  *logBuffer
}

// logBuffer keeps what processes say, for a test that fails.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// freeAddress returns an address on loopback where nothing listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newServer(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	s := &server{dir: dir, listen: freeAddress(t), args: args, log: &logBuffer{}}
	t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("log of the server on %s:\n%s", s.dir, s.log)
		}
	})
	return s
}

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// start runs the process until it is ready.
func (s *server) start(t *testing.T) {
	t.Helper()
	args := append([]string{"server", "--data-dir", s.dir, "--listen", s.listen}, s.args...)
	binary := s.binary
	if binary == "" {
		binary = os.Args[0]
	}
	s.cmd = exec.Command(binary, args...) // proa
	s.cmd.Env = append(os.Environ(), runEnv+"=1")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	fmt.Fprintf(s.log, "--- %v\n", args) // memory
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, done := s.cmd, make(chan struct{})
	s.done = done
	go func() {
		defer close(done)
		cmd.Wait() // most are killed
	}()
	cluster.Eventually(t, 60*time.Second, "the server is ready", func(ctx context.Context) bool {
		select {
		case <-done:
			t.Fatalf("the server ended at its start: %v", cmd.ProcessState)
		default:
		}
		return s.ready(ctx)
	})
}

// ready asks the server. Its answer is 401 or worse until the kubeconfig is
// there, so it is asked as anybody may.
func (s *server) ready(ctx context.Context) bool {
	if _, err := os.Stat(s.kubeconfig()); err != nil {
		return false
	}
	code, _ := anonymous(ctx, s.kubeconfig(), "https://"+s.listen+"/readyz")
	return code == http.StatusOK
}

// end sends a signal and waits for the end of the process.
func (s *server) end(signal syscall.Signal) {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(signal) // it may have ended
	<-s.done
	s.cmd = nil
}

// clients returns stock clients of the server.
func (s *server) clients(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	return protobufClients(t, adminConfig(t, s.kubeconfig()))
}

// build makes the binary as users have it: without what the race detector
// adds to each access to memory.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proa")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/proa-project/proa/cmd/proa") // constant but for the folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build proa: %v\n%s", err, out)
	}
	return path
}
