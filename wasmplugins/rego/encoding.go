package rego

import (
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // policies ask for it
	"crypto/sha1" //nolint:gosec // policies ask for it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"maps"
	"net/url"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

func encodingBuiltins() map[string]builtin {
	sum := func(h func() hash.Hash) builtin {
		return func(c *call) any {
			c.pay(len(c.text(0)), 4)
			d := h()
			d.Write([]byte(c.text(0)))
			return hex.EncodeToString(d.Sum(nil))
		}
	}
	mac := func(h func() hash.Hash) builtin {
		return func(c *call) any {
			c.pay(len(c.text(0))+len(c.text(1)), 4)
			d := hmac.New(h, []byte(c.text(1)))
			d.Write([]byte(c.text(0)))
			return hex.EncodeToString(d.Sum(nil))
		}
	}
	out := map[string]builtin{
		"crypto.md5": sum(md5.New), "crypto.sha1": sum(sha1.New), "crypto.sha256": sum(sha256.New),
		"crypto.hmac.md5": mac(md5.New), "crypto.hmac.sha1": mac(sha1.New), "crypto.hmac.sha256": mac(sha256.New), "crypto.hmac.sha512": mac(sha512.New),
		"crypto.hmac.equal": func(c *call) any { return hmac.Equal([]byte(c.text(0)), []byte(c.text(1))) },
		"hex.encode":        func(c *call) any { return hex.EncodeToString([]byte(c.text(0))) },
		"hex.decode": func(c *call) any {
			b, err := hex.DecodeString(c.text(0))
			c.must(err)
			return string(b)
		},
		"base64url.encode_no_pad": func(c *call) any { return base64.RawURLEncoding.EncodeToString([]byte(c.text(0))) },
		"base64.is_valid": func(c *call) any {
			_, err := base64.StdEncoding.DecodeString(c.text(0))
			return err == nil
		},
		"urlquery.encode": func(c *call) any { return url.QueryEscape(c.text(0)) },
		"urlquery.decode": func(c *call) any {
			s, err := url.QueryUnescape(c.text(0))
			c.must(err)
			return s
		},
		"urlquery.encode_object": encodeQuery,
		"urlquery.decode_object": func(c *call) any {
			q, err := url.ParseQuery(c.text(0))
			c.must(err)
			o := object{}
			for key, values := range q {
				o = append(o, member{key, list(values)})
			}
			return o.sort()
		},
	}
	maps.Copy(out, documentBuiltins())
	return out
}

func encodeQuery(c *call) any {
	q := url.Values{}
	for _, m := range c.object(0) {
		key, ok := m.key.(string)
		if !ok {
			none()
		}
		q[key] = append(q[key], (&call{i: c.i, args: []any{m.value}}).texts(0)...)
	}
	return q.Encode()
}

// documentBuiltins read and write JSON and YAML.
func documentBuiltins() map[string]builtin {
	return map[string]builtin{
		"json.is_valid": func(c *call) any {
			s, ok := c.arg(0).(string)
			return ok && json.Valid([]byte(s))
		},
		"json.marshal_with_options": func(c *call) any {
			options := c.object(1)
			prefix, indent := "", "\t"
			if v, ok := options.get("prefix"); ok {
				prefix, _ = v.(string)
			}
			if v, ok := options.get("indent"); ok {
				indent, _ = v.(string)
			}
			pretty, given := options.get("pretty")
			if given && pretty != true || !given && len(options) == 0 {
				b, err := json.Marshal(plain(c.arg(0)))
				c.must(err)
				return string(b)
			}
			size := len(show(c.arg(0)))
			c.fits(size * (1 + len(prefix) + depth(c.arg(0))*len(indent)))
			b, err := json.MarshalIndent(plain(c.arg(0)), prefix, indent)
			c.must(err)
			return prefix + string(b)
		},
		"yaml.marshal": func(c *call) any {
			b, err := yaml.Marshal(plain(c.arg(0)))
			c.must(err)
			c.pay(len(b), 64)
			return string(b)
		},
		"yaml.unmarshal": func(c *call) any {
			v, err := readYAML(c, c.text(0))
			c.must(err)
			return v
		},
		"yaml.is_valid": func(c *call) any {
			s, ok := c.arg(0).(string)
			if !ok {
				return false
			}
			_, err := readYAML(c, s)
			return err == nil
		},
	}
}

// depth is how deeply a value is nested.
func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	case set:
		return depth([]any(v))
	case object:
		for _, m := range v {
			deepest = max(deepest, depth(m.value))
		}
	}
	return deepest + 1
}

// anchors and aliases are parts of a YAML document to refer to, and what refers
// to them.
var (
	anchors = regexp.MustCompile(`(?:^|[\s\[{,:-])&\S`)
	aliases = regexp.MustCompile(`(?:^|[\s\[{,:-])\*\S`)
)

// readYAML refuses what refers to other parts of the document: a few lines
// could make a very large value of it.
func readYAML(c *call, s string) (any, error) {
	c.pay(len(s), 200)
	if anchors.MatchString(s) && aliases.MatchString(s) {
		return nil, errors.New("the document refers to parts of itself")
	}
	b, err := yaml.YAMLToJSON([]byte(s))
	if err != nil {
		return nil, err
	}
	c.fits(len(b))
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return rich(v), nil
}
