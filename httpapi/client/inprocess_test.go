package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/proa-project/proa/httpapi/client"
)

func get(ctx context.Context, t testing.TB, tr http.RoundTripper, target string) (*http.Response, error) {
	t.Helper()
	u, err := url.Parse("http://in-process" + target)
	if err != nil {
		t.Fatal(err)
	}
	return tr.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}}).WithContext(ctx))
}

func TestInProcess_buffered(t *testing.T) {
	var seen *http.Request
	tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Method", r.Method)
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot) // too late
		io.WriteString(w, "got ")
		w.Write(body)
	}))
	u := &url.URL{Scheme: "http", Host: "somewhere", Path: "/a b", RawQuery: "x=1"}
	resp, err := tr.RoundTrip(&http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("it"))})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "got it" || resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-Method") != "POST" || resp.ContentLength != 6 {
		t.Errorf("answer %d %v %q, %v", resp.StatusCode, resp.Header, body, err)
	}
	if seen.RemoteAddr == "" || seen.RequestURI != "/a%20b?x=1" || seen.URL.Host != "" || seen.Host != "somewhere" {
		t.Errorf("handler saw %q %q %q %q", seen.RemoteAddr, seen.RequestURI, seen.URL.Host, seen.Host)
	}
	if u.Host != "somewhere" {
		t.Error("the caller's request was changed")
	}
}

// What a caller noted in its context is not for the server, as over a socket.
func TestInProcess_dropsValues(t *testing.T) {
	type key struct{}
	for _, target := range []string{"/a", "/a?watch=1"} {
		tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if v := r.Context().Value(key{}); v != nil {
				t.Errorf("%s: the handler sees the caller's %v", target, v)
			}
			io.WriteString(w, "done")
		}))
		resp, err := get(context.WithValue(t.Context(), key{}, "note"), t, tr, target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
	}
}

func TestInProcess_panics(t *testing.T) {
	for _, target := range []string{"/x", "/x?watch=true"} {
		for name, p := range map[string]any{"value": "broken", "abort": http.ErrAbortHandler} {
			t.Run(name+target, func(t *testing.T) {
				tr := client.InProcess(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(p) }))
				if _, err := get(t.Context(), t, tr, target); err == nil {
					t.Error("no error")
				}
			})
		}
	}
	// After the header was sent the reader sees the error.
	tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}))
	resp, err := get(t.Context(), t, tr, "/x?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if string(body) != "half" || err == nil {
		t.Errorf("read %q, %v", body, err)
	}
	resp.Body.Close()
}

func TestInProcess_streams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended = true }()
			w.Header().Set("A", "1")
			w.(http.Flusher).Flush()
			w.Header().Set("A", "2") // too late
			for i := 0; ; i++ {
				select {
				case <-r.Context().Done():
					return
				case <-time.After(time.Second):
					fmt.Fprintf(w, "%d\n", i)
				}
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		resp, err := get(ctx, t, tr, "/x?watch=true")
		if err != nil {
			t.Fatal(err)
		}
		if resp.Header.Get("A") != "1" {
			t.Errorf("header is %q", resp.Header.Get("A"))
		}
		buf := make([]byte, 64)
		if n, gotErr := resp.Body.Read(buf); string(buf[:n]) != "0\n" || gotErr != nil {
			t.Errorf("read %q, %v", buf[:n], gotErr)
		}
		<-time.After(3500 * time.Millisecond) // the bubble's clock
		if n, gotErr := resp.Body.Read(buf); string(buf[:n]) != "1\n2\n3\n" || gotErr != nil {
			t.Errorf("read %q, %v", buf[:n], gotErr)
		}
		if gotErr := resp.Body.Close(); gotErr != nil || !ended {
			t.Errorf("Close returned %v, handler ended %v", gotErr, ended)
		}
		if _, gotErr := resp.Body.Read(buf); gotErr == nil {
			t.Error("read after Close")
		}

		// The context ends a read that waits, and the handler.
		ended = false
		if resp, err = get(ctx, t, tr, "/x?watch=true"); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(500*time.Millisecond, cancel)
		if _, err := resp.Body.Read(buf); !errors.Is(err, context.Canceled) {
			t.Errorf("read returned %v", err)
		}
		synctest.Wait()
		if !ended {
			t.Error("handler goes on")
		}
	})
}

func TestInProcess_holdsUpAWriterThatIsFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := 0
		chunk := strings.Repeat("x", 64<<10)
		tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
				written++
			}
		}))
		resp, err := get(t.Context(), t, tr, "/x?follow=true")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if written > 8 {
			t.Errorf("%d chunks are in memory", written)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if n != 100*64<<10 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		resp.Body.Close()

		// A reader that goes away frees the writer.
		if resp, err = get(t.Context(), t, tr, "/x?follow=true"); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	})
}

func TestInProcess_contextEndsBeforeTheAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tr := client.InProcess(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	if _, err := get(ctx, t, tr, "/x?watch=true"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := get(ctx, t, tr, "/x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
