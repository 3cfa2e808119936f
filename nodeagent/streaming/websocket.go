package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/proa-project/proa/nodeagent/cri"
)

// The protocols of exec and attach over WebSocket: each message begins with
// the number of its channel. The fifth version can also close a channel.
const (
	protocolV5 = "v5.channel.k8s.io"
	protocolV4 = "v4.channel.k8s.io"

	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3
	channelResize = 4
	channelClose  = 255
)

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// speaks tells whether the client offers a protocol that is translated here.
func speaks(r *http.Request) bool {
	for _, p := range websocket.Subprotocols(r) {
		if p == protocolV5 || p == protocolV4 {
			return true
		}
	}
	return false
}

// translate joins a WebSocket client with the runtime, which speaks SPDY.
func (s *server) translate(w http.ResponseWriter, r *http.Request, target *url.URL, o cri.StreamOptions) error {
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, target)
	if err != nil {
		return err
	}
	if !speaks(r) {
		return apierrors.NewBadRequest("of WebSocket protocols, " + protocolV5 + " and " + protocolV4 + " are spoken here")
	}
	upgrader := websocket.Upgrader{
		Subprotocols: []string{protocolV5, protocolV4},
		CheckOrigin:  func(*http.Request) bool { return true }, // who asks has shown a certificate
	}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.Log.Debug().Err(err).Str("path", r.URL.Path).Msg("cannot upgrade to WebSocket")
		return nil // it has answered
	}
	c := &channels{conn: conn, sizes: make(chan remotecommand.TerminalSize, 1)}
	c.stdin, c.typed = io.Pipe()
	ctx, cancel := context.WithCancel(r.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		c.read()
		cancel()
	})
	defer reader.Wait()
	defer conn.Close() //nolint:errcheck // it is over
	defer cancel()

	options := remotecommand.StreamOptions{Tty: o.TTY}
	if o.Stdin {
		options.Stdin = c.stdin
	}
	if o.Stdout {
		options.Stdout = channel{c, channelStdout}
	}
	if o.Stderr && !o.TTY {
		options.Stderr = channel{c, channelStderr}
	}
	if o.TTY {
		options.TerminalSizeQueue = sizeQueue{ctx, c.sizes}
	}
	err = executor.StreamWithContext(ctx, options)
	c.stdin.Close() //nolint:errcheck // nobody reads on
	return c.finish(err)
}

// channels are the streams within a WebSocket.
type channels struct {
	conn  *websocket.Conn
	stdin *io.PipeReader
	typed *io.PipeWriter
	sizes chan remotecommand.TerminalSize

	mu sync.Mutex // one writes at a time
}

// read hands on what the client sends until the connection ends.
func (c *channels) read() {
	for {
		_, b, err := c.conn.ReadMessage()
		if err != nil {
			c.typed.CloseWithError(err)
			return
		}
		if len(b) == 0 {
			continue
		}
		switch b[0] {
		case channelStdin:
			c.typed.Write(b[1:]) //nolint:errcheck // the command has ended
		case channelResize:
			var size remotecommand.TerminalSize
			if json.Unmarshal(b[1:], &size) == nil {
				select {
				case <-c.sizes: // only the last counts
				default:
				}
				c.sizes <- size
			}
		case channelClose:
			if len(b) == 2 && b[1] == channelStdin {
				c.typed.Close() //nolint:errcheck // it never fails
			}
		}
	}
}

func (c *channels) write(number byte, p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn.WriteMessage(websocket.BinaryMessage, append([]byte{number}, p...))
}

// A channel is an output stream within a WebSocket.
type channel struct {
	c      *channels
	number byte
}

func (w channel) Write(p []byte) (int, error) {
	if err := w.c.write(w.number, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

type sizeQueue struct {
	ctx   context.Context //nolint:containedctx // of one call
	sizes chan remotecommand.TerminalSize
}

// Next implements remotecommand.TerminalSizeQueue.
func (q sizeQueue) Next() *remotecommand.TerminalSize {
	select {
	case size := <-q.sizes:
		return &size
	case <-q.ctx.Done():
		return nil
	}
}

// finish tells the client how the command ended, and ends the connection.
func (c *channels) finish(err error) error {
	body, failed := json.Marshal(exitStatus(err))
	if failed != nil {
		return failed
	}
	c.write(channelError, body)                                                                                                              //nolint:errcheck // the client may have gone
	c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second)) //nolint:errcheck // the client may have gone
	return nil
}

// exitStatus is the last word of a command.
func exitStatus(err error) *metav1.Status {
	s := &metav1.Status{Status: metav1.StatusSuccess}
	var exit exec.CodeExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		s.Status, s.Reason = metav1.StatusFailure, "NonZeroExitCode"
		s.Message = "command terminated with non-zero exit code: " + exit.Error()
		s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(exit.Code)}}}
	default:
		s.Status, s.Reason, s.Message = metav1.StatusFailure, metav1.StatusReasonInternalError, err.Error()
	}
	return s
}
