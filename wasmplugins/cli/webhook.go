package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/abi"
)

// A webhookConfig is where an admission webhook is.
type webhookConfig struct {
	url, ca  string
	insecure bool
	timeout  time.Duration
}

func (w *webhookConfig) flags(c *cobra.Command) {
	c.Flags().StringVar(&w.url, "webhook", "", "URL of an admission webhook")
	c.Flags().StringVar(&w.ca, "webhook-ca", "", "file of the CA that has signed the webhook's certificate")
	c.Flags().BoolVar(&w.insecure, "insecure", false, "do not check the webhook's certificate")
	c.Flags().DurationVar(&w.timeout, "webhook-timeout", 10*time.Second, "how long the webhook may take")
}

// A webhookContender asks a webhook, over one connection that stays open.
type webhookContender struct {
	url    string
	client *http.Client
}

func (w *webhookConfig) start() (contender, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: w.insecure} //nolint:gosec // the user's wish
	if w.ca != "" {
		pem, err := os.ReadFile(w.ca)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: there is no certificate in it", w.ca)
		}
	}
	return &webhookContender{url: w.url, client: &http.Client{Timeout: w.timeout, Transport: &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}}}, nil
}

func (w *webhookContender) Prepare(r *abi.AdmissionRequest) (func(context.Context) (outcome, error), error) {
	var q struct {
		Request json.RawMessage `json:"request"`
	}
	if err := json.Unmarshal(r.Append(nil, abi.PhaseMutate, nil), &q); err != nil {
		return nil, err
	}
	var ask bytes.Buffer
	fmt.Fprintf(&ask, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":%s}`, q.Request)
	return func(ctx context.Context) (outcome, error) {
		reply, err := w.post(ctx, ask.Bytes())
		if ctx.Err() != nil {
			return outcome{}, ctx.Err()
		}
		return judged(r.Object, reply, err), nil
	}, nil
}

// post sends an AdmissionReview and reads the answer.
func (w *webhookContender) post(ctx context.Context, review []byte) (*abi.AdmissionReply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, abi.MaxCarry))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the webhook answered %s", resp.Status)
	}
	var answer struct {
		Response *struct {
			Allowed  bool     `json:"allowed"`
			Patch    []byte   `json:"patch"`
			Warnings []string `json:"warnings"`
			Status   struct {
				Message string `json:"message"`
				Code    int32  `json:"code"`
			} `json:"status"`
		} `json:"response"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the webhook's answer is no AdmissionReview: %w", err)
	}
	a := answer.Response
	if a == nil {
		return nil, errors.New("the webhook's answer has no response")
	}
	return &abi.AdmissionReply{Allowed: a.Allowed, Patch: a.Patch, Warnings: a.Warnings, Message: a.Status.Message, Code: a.Status.Code}, nil
}

func (w *webhookContender) Close() { w.client.CloseIdleConnections() }
