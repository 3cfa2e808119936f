package library

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Credentials are for one registry. The zero value is nobody's.
type credentials struct {
	username, password string
	identity           string // a refresh token, to get tokens with
	token              string // a token for the registry itself
}

func (c *credentials) empty() bool { return *c == credentials{} }

// dockerConfig is what a Secret of type kubernetes.io/dockerconfigjson holds.
type dockerConfig struct {
	Auths map[string]struct {
		Username      string `json:"username"`
		Password      string `json:"password"`
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
		RegistryToken string `json:"registrytoken"`
	} `json:"auths"`
}

// parseCredentials returns what a docker configuration has for a repository:
// of several entries for its host the one with the longest path above it.
func parseCredentials(config []byte, r reference) (credentials, error) {
	var c dockerConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return credentials{}, errors.New("is no docker configuration in JSON") // the error's text could tell a secret
	}
	best, found := "", -1
	for key := range c.Auths {
		host, path := splitRegistry(key)
		if strings.EqualFold(host, r.host) && within(r.repository, path) && len(path) > found {
			best, found = key, len(path)
		}
	}
	if found < 0 {
		return credentials{}, fmt.Errorf("has no credentials for the registry %q", r.host)
	}
	a := c.Auths[best]
	out := credentials{username: a.Username, password: a.Password, identity: a.IdentityToken, token: a.RegistryToken}
	if a.Auth == "" {
		return out, nil
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(a.Auth))
	if err != nil {
		pair, err = base64.RawStdEncoding.DecodeString(strings.TrimSpace(a.Auth))
	}
	username, password, ok := strings.Cut(string(pair), ":")
	if err != nil || !ok {
		return credentials{}, fmt.Errorf("the entry auth for the registry %q is not user:password in base64", r.host)
	}
	out.username, out.password = username, strings.TrimRight(password, "\x00")
	return out, nil
}

// splitRegistry takes a key of a docker configuration apart, which may be a
// host, a host with a path, or a URL.
func splitRegistry(key string) (host, path string) {
	_, rest, ok := strings.Cut(key, "://")
	if !ok {
		rest = key
	}
	host, path, _ = strings.Cut(rest, "/")
	path = strings.Trim(path, "/")
	if path == "v1" || path == "v2" { // of the API, not of a repository
		path = ""
	}
	return host, path
}

// within reports whether a repository is at or below a path.
func within(repository, path string) bool {
	return path == "" || repository == path || strings.HasPrefix(repository, path+"/")
}
