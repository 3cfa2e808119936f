package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/websocket"
)

// isWebSocket reports whether the client wants to go on with messages.
func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// overWebSocket runs a watch with one text message per event, for browsers.
func (wt *watching) overWebSocket(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := websocket.Server{
		// Who asks has been authenticated: where the page came from that
		// asks is of no concern, and a browser sends no certificate or token
		// on behalf of another page.
		Handshake: func(cfg *websocket.Config, _ *http.Request) error {
			cfg.Protocol = firstProtocol(cfg.Protocol)
			return nil
		},
		Handler: func(ws *websocket.Conn) {
			defer ws.Close() //nolint:errcheck // nothing to save
			// A client that does not read holds up the end of the watch for a
			// moment only: nobody else watches over a connection like this.
			defer context.AfterFunc(ctx, func() {
				ws.SetWriteDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it is closed already
			})()
			gone := make(chan struct{})
			go func() { // the client says nothing, but it may leave
				defer close(gone)
				defer cancel()
				var discard []byte
				for websocket.Message.Receive(ws, &discard) == nil {
					discard = discard[:0]
				}
			}()
			f := &frames{wt: wt, send: func(event []byte) error {
				if wt.out.format == formatProtobuf {
					return websocket.Message.Send(ws, event)
				}
				return websocket.Message.Send(ws, strings.TrimSuffix(string(event), "\n"))
			}}
			defer f.release()
			if err := wt.run(ctx, f); err != nil {
				f.fail(err)
			}
			ws.Close() //nolint:errcheck // ends the reader
			<-gone
		},
	}
	x := exchangeOf(w)
	if _, ok := x.ResponseWriter.(http.Hijacker); !ok {
		return badRequest("the connection cannot be upgraded to WebSocket: HTTP/1.1 is needed")
	}
	x.code = http.StatusSwitchingProtocols
	server.ServeHTTP(x.ResponseWriter, r)
	return nil
}

// firstProtocol returns the first protocol that is none of those that only
// carry a credential.
func firstProtocol(offered []string) []string {
	for _, p := range offered {
		if !strings.HasPrefix(p, "base64url.bearer.authorization.k8s.io.") {
			return []string{p}
		}
	}
	return nil
}
