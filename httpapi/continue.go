package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// continueVersion marks the form of continue tokens.
const continueVersion = "meta.k8s.io/v1"

// A continueToken is where a list goes on.
type continueToken struct {
	// revision is the state that is listed; -1 is whatever there is.
	revision int64
	after    string // the last key of the part before
}

// tokenJSON is a token as clients carry it. They must not look into it, but
// those of upstream look the same.
type tokenJSON struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

// encodeContinue returns the token for what follows a key below prefix.
func encodeContinue(revision int64, after, prefix string) string {
	data, err := json.Marshal(tokenJSON{
		Version: continueVersion, Revision: revision, Start: strings.TrimPrefix(after, prefix) + "\x00",
	})
	if err != nil { // strings and a number
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// decodeContinue reads a token for a list below prefix.
func decodeContinue(text, prefix string) (continueToken, error) {
	t, err := parseContinue(text)
	if err != nil {
		return continueToken{}, badRequest("continue key is not valid: %v", err)
	}
	return continueToken{revision: t.Revision, after: prefix + strings.TrimSuffix(t.Start, "\x00")}, nil
}

func parseContinue(text string) (t tokenJSON, err error) {
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, err
	}
	switch {
	case t.Version != continueVersion:
		return t, fmt.Errorf("server does not recognize this encoded version %q", t.Version)
	case t.Revision == 0 || t.Revision < -1:
		return t, fmt.Errorf("incorrect encoded start resourceVersion (version %s)", t.Version)
	case t.Start == "":
		return t, fmt.Errorf("encoded start key empty (version %s)", t.Version)
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(t.Start, "\x00"), "/") {
		if part == "." || part == ".." {
			return t, fmt.Errorf("invalid key %q", t.Start)
		}
	}
	return t, nil
}
