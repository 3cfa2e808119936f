package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
)

func pushCommand() *cobra.Command {
	var kubeconfig, signature, keyName string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "push NAME FILE",
		Short: "Upload a module and wait until the server has compiled it",
		Long: `Upload a module as the content of the WasmModule NAME, which is made if it is not
there, and wait until the server has compiled it. A signature is stored together
with the content; servers that trust certain keys want one.`,
		Example: `  proa plugin push my-policy my-policy.wasm --kubeconfig admin.kubeconfig
  proa plugin push my-policy my-policy.wasm --signature "$(proa plugin sign my-policy.wasm --key private.pem)"`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if kubeconfig == "" {
				return errors.New("no kubeconfig: give --kubeconfig or set KUBECONFIG")
			}
			rest, err := client.FromKubeconfig(kubeconfig)
			if err != nil {
				return err
			}
			wasm, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			begin := time.Now()
			if signature == "" {
				err = Push(ctx, rest, args[0], wasm)
			} else {
				err = pushSigned(ctx, rest, args[0], wasm, signature, keyName)
			}
			if err != nil {
				return err
			}
			m, err := waitCompiled(ctx, rest, args[0], engine.Digest(wasm))
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "wasmmodule.plugins.proa.io/%s uploaded: %s, %d bytes, compiled in %d ms, ready after %v\n",
				m.Name, m.Status.Digest, m.Status.SizeBytes, m.Status.CompileMillis, time.Since(begin).Round(time.Millisecond))
			return nil
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "path of the kubeconfig (default: $KUBECONFIG)")
	c.Flags().StringVar(&signature, "signature", "", signatureUsage)
	c.Flags().StringVar(&keyName, "key-name", "", "name that the server has for the key of the signature (default: try all)")
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait")
	return c
}

// Push uploads a module as the content of a WasmModule, which is made if it is
// not there.
func Push(ctx context.Context, rest *client.REST, name string, wasm []byte) error {
	return push(ctx, rest, name, wasm, url.Values{})
}

// pushSigned is Push with a signature, given as to a flag.
func pushSigned(ctx context.Context, rest *client.REST, name string, wasm []byte, signature, key string) error {
	b, err := readSignature(signature)
	if err != nil {
		return err
	}
	return push(ctx, rest, name, wasm, url.Values{"signature": {base64.StdEncoding.EncodeToString(b)}, "key": {key}})
}

func push(ctx context.Context, rest *client.REST, name string, wasm []byte, query url.Values) error {
	modules := client.For[*pluginsv1.WasmModule](rest)
	_, err := modules.Create(ctx, &pluginsv1.WasmModule{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	query.Set("digest", engine.Digest(wasm))
	resp, err := rest.Do(ctx, client.Request{
		Method: http.MethodPut, Path: "/apis/plugins.proa.io/v1/wasmmodules/" + name + "/content",
		Query: query, ContentType: "application/wasm", Body: wasm,
	})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// waitCompiled waits until the server knows whether it can use the content.
func waitCompiled(ctx context.Context, rest *client.REST, name, digest string) (*pluginsv1.WasmModule, error) {
	modules := client.For[*pluginsv1.WasmModule](rest)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		m, err := modules.Get(ctx, "", name)
		if err != nil {
			return nil, err
		}
		ready := meta.FindStatusCondition(m.Status.Conditions, "Ready")
		if ready != nil && m.Status.Digest == digest && m.Status.ObservedGeneration == m.Generation && !outdated(ready) {
			if ready.Status != metav1.ConditionTrue {
				return nil, fmt.Errorf("the server cannot use the module: %s: %s", ready.Reason, ready.Message)
			}
			return m, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until the module is compiled: %w", ctx.Err())
		}
	}
}

// outdated reports whether a condition is from before the upload that it asks
// for.
func outdated(c *metav1.Condition) bool {
	return c.Reason == library.ReasonContentMissing || c.Reason == library.ReasonContentCorrupt
}
