package cli

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
)

func signCommand() *cobra.Command {
	var keyFile string
	c := &cobra.Command{
		Use:   "sign FILE --key PRIVATE.pem",
		Short: "Sign a module",
		Long: `Sign a module and print the signature in base64, for "push --signature" or for
spec.signatures of a WasmModule.

The key is an Ed25519 or ECDSA P-256 key in PEM. openssl makes the same keys and
signatures:
  openssl genpkey -algorithm ed25519 -out private.pem
  openssl pkey -in private.pem -pubout -out public.pem
  openssl pkeyutl -sign -rawin -inkey private.pem -in p.wasm | base64 -w0
or
  openssl ecparam -name prime256v1 -genkey -noout -out private.pem
  openssl ec -in private.pem -pubout -out public.pem
  openssl dgst -sha256 -sign private.pem p.wasm | base64 -w0`,
		Example: `  proa plugin sign my-policy.wasm --key private.pem
  proa plugin push my-policy my-policy.wasm --signature "$(proa plugin sign my-policy.wasm --key private.pem)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wasm, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			text, err := os.ReadFile(keyFile)
			if err != nil {
				return err
			}
			signature, err := sign(text, wasm)
			if err != nil {
				return fmt.Errorf("%s: %w", keyFile, err)
			}
			fmt.Fprintln(c.OutOrStdout(), base64.StdEncoding.EncodeToString(signature))
			return nil
		},
	}
	c.Flags().StringVar(&keyFile, "key", "", "file with the private key")
	_ = c.MarkFlagRequired("key") // the flag is there
	return c
}

func verifyCommand() *cobra.Command {
	var keyFile, signature string
	c := &cobra.Command{
		Use:     "verify FILE --key PUBLIC.pem --signature SIGNATURE",
		Short:   "Check the signature of a module",
		Long:    "Check that a signature of a module is by a key, as a server that trusts the key does.",
		Example: "  proa plugin verify my-policy.wasm --key public.pem --signature @my-policy.wasm.sig",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wasm, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			text, err := os.ReadFile(keyFile)
			if err != nil {
				return err
			}
			key, err := library.ParseKey(keyFile, text)
			if err != nil {
				return err
			}
			b, err := readSignature(signature)
			if err != nil {
				return err
			}
			if !key.Verify(wasm, b) {
				return fmt.Errorf("the signature of %s is not by the key %s", args[0], keyFile)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: signed by the key %s: %s\n", args[0], keyFile, engine.Digest(wasm))
			return nil
		},
	}
	c.Flags().StringVar(&keyFile, "key", "", "file with the public key")
	c.Flags().StringVar(&signature, "signature", "", signatureUsage)
	_ = c.MarkFlagRequired("key")       // the flag is there
	_ = c.MarkFlagRequired("signature") // the flag is there
	return c
}

const signatureUsage = "signature in base64, or @ and a file with it, raw or in base64"

// readSignature returns the signature that a flag gives.
func readSignature(flag string) ([]byte, error) {
	text := []byte(flag)
	name, file := strings.CutPrefix(flag, "@")
	if file {
		var err error
		if text, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	b, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	switch {
	case err == nil && len(b) > 0:
		return b, nil
	case file && len(text) > 0:
		return text, nil
	}
	return nil, errors.New("the signature is not in base64")
}

// sign signs a module with a private key in PEM: PKCS#8, or SEC 1 as older
// commands of openssl write it.
func sign(key, wasm []byte) ([]byte, error) {
	var private any
	err := errors.New("no private key in PEM")
	for block, rest := pem.Decode(key); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PRIVATE KEY":
			private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			private, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			continue // such as EC PARAMETERS
		}
		break
	}
	if err != nil {
		return nil, err
	}
	switch k := private.(type) {
	case ed25519.PrivateKey:
		return k.Sign(rand.Reader, wasm, crypto.Hash(0))
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			sum := sha256.Sum256(wasm)
			return k.Sign(rand.Reader, sum[:], crypto.SHA256)
		}
	}
	return nil, errors.New("the key must be Ed25519 or ECDSA P-256")
}
