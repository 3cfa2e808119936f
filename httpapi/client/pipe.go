package client

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// pipeLimit is how much a handler may write ahead of its reader.
const pipeLimit = 256 << 10

// stream runs the handler on its own goroutine and returns when it has sent
// the header.
func (t inProcess) stream(ctx context.Context, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pipe{header: make(http.Header, 4), started: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	p.cond.L = &p.mu
	r := serverRequest(ctx, req)
	// The context ends reads and writes that wait.
	stop := context.AfterFunc(ctx, func() { p.fail(ctx.Err()) })
	go func() {
		defer close(p.done)
		defer stop()
		err := serve(t.h, p, r)
		if err == nil { // an answer that the context has cut is not complete
			err = ctx.Err()
		}
		p.finish(err)
	}()
	select {
	case <-p.started:
	case <-ctx.Done():
		<-p.done
		cancel()
		return nil, ctx.Err()
	}
	p.mu.Lock()
	err, code, header := p.startErr, p.code, p.sent
	p.mu.Unlock()
	if err != nil {
		<-p.done
		cancel()
		return nil, err
	}
	resp := response(req, code, header)
	resp.Body = p
	return resp, nil
}

// A pipe is the answer of a handler that streams: the handler writes into a
// buffer and waits only when its reader is far behind.
type pipe struct {
	header  http.Header // the handler's
	started chan struct{}
	done    chan struct{} // the handler has returned
	cancel  context.CancelFunc

	mu       sync.Mutex // guards the fields below
	cond     sync.Cond
	code     int
	sent     http.Header // the header as it was when it was sent
	startErr error       // why there is no answer at all
	buf      []byte
	r        int
	werr     error // no more writes
	rerr     error // no more bytes after buf
}

func (p *pipe) Header() http.Header { return p.header }

func (p *pipe) WriteHeader(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(code)
}

// start needs mu.
func (p *pipe) start(code int) {
	if p.code != 0 || code < 200 {
		return
	}
	p.code, p.sent = code, p.header.Clone()
	close(p.started)
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(http.StatusOK)
	for p.werr == nil && len(p.buf)-p.r >= pipeLimit {
		p.cond.Wait()
	}
	if p.werr != nil {
		return 0, p.werr
	}
	if p.r == len(p.buf) {
		p.buf, p.r = p.buf[:0], 0
	}
	p.buf = append(p.buf, b...)
	p.cond.Broadcast()
	return len(b), nil
}

// Flush sends the header; the body needs no flushing.
func (p *pipe) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(http.StatusOK)
}

// Read waits for bytes from the handler.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.r == len(p.buf) && p.rerr == nil {
		p.cond.Wait()
	}
	if p.r == len(p.buf) {
		return 0, p.rerr
	}
	n := copy(b, p.buf[p.r:])
	p.r += n
	switch {
	case p.r < len(p.buf):
	case cap(p.buf) > pipeLimit:
		p.buf, p.r = nil, 0 // one large burst must not stay for ever
	default:
		p.buf, p.r = p.buf[:0], 0
	}
	p.cond.Broadcast()
	return n, nil
}

// Close ends the handler and waits for it.
func (p *pipe) Close() error {
	p.fail(io.ErrClosedPipe)
	p.cancel()
	<-p.done
	return nil
}

// fail ends both sides with an error; what was not read is dropped.
func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.werr == nil {
		p.werr = err
	}
	if p.rerr == nil {
		p.rerr = err
		p.buf, p.r = nil, 0
	}
	p.cond.Broadcast()
}

// finish is called when the handler has returned.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.code == 0 {
		if err != nil {
			p.startErr = err
			p.code = http.StatusInternalServerError
			close(p.started)
		} else {
			p.start(http.StatusOK)
		}
	}
	if p.werr == nil {
		p.werr = io.ErrClosedPipe
	}
	if p.rerr == nil {
		if err == nil {
			err = io.EOF
		}
		p.rerr = err
	}
	p.cond.Broadcast()
}
