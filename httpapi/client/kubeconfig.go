package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// kubeconfig is the part of a kubeconfig file that this client honours.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User user   `json:"user"`
	} `json:"users"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
}

type cluster struct {
	Server     string `json:"server"`
	ServerName string `json:"tls-server-name"`
	Insecure   bool   `json:"insecure-skip-tls-verify"`
	CAFile     string `json:"certificate-authority"`
	CAData     []byte `json:"certificate-authority-data"`
}

type user struct {
	CertFile     string `json:"client-certificate"`
	CertData     []byte `json:"client-certificate-data"`
	KeyFile      string `json:"client-key"`
	KeyData      []byte `json:"client-key-data"`
	Token        string `json:"token"`
	TokenFile    string `json:"tokenFile"`
	Exec         any    `json:"exec"`
	AuthProvider any    `json:"auth-provider"`
}

var (
	errNoContext    = errors.New("current-context names no context of the file")
	errNoCluster    = errors.New("the context names no cluster of the file")
	errNoUser       = errors.New("the context names no user of the file")
	errUnsupported  = errors.New("exec and auth-provider credentials are not supported")
	errNoServerAddr = errors.New("the cluster has no server")
)

// FromKubeconfig returns a REST for the current context of a kubeconfig file.
// Relative file names in it are relative to its folder. Credentials by exec
// plugin or auth provider are refused.
func FromKubeconfig(path string) (*REST, error) {
	data, err := os.ReadFile(path) // the caller's file
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	var k kubeconfig
	if err = yaml.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("parse kubeconfig %q: %w", path, err)
	}
	c, u, err := k.current()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", path, err)
	}
	dir := filepath.Dir(path)
	t := TLS{ServerName: c.ServerName, Insecure: c.Insecure}
	var token []byte
	for _, f := range []struct {
		into *[]byte
		data []byte
		file string
	}{
		{&t.CA, c.CAData, c.CAFile}, {&t.Cert, u.CertData, u.CertFile}, {&t.Key, u.KeyData, u.KeyFile}, {&token, []byte(u.Token), u.TokenFile},
	} {
		*f.into = f.data
		if len(f.data) > 0 || f.file == "" {
			continue
		}
		file := f.file
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if *f.into, err = os.ReadFile(file); err != nil { // named by the caller's file
			return nil, fmt.Errorf("kubeconfig %q: %w", path, err)
		}
	}
	tr, err := NewTransport(t)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", path, err)
	}
	return New(Config{URL: c.Server, Transport: tr, Token: strings.TrimSpace(string(token))})
}

// current returns the cluster and the user of the current context.
func (k *kubeconfig) current() (*cluster, *user, error) {
	for i := range k.Contexts {
		if k.Contexts[i].Name != k.CurrentContext {
			continue
		}
		x := k.Contexts[i].Context
		var c *cluster
		for i := range k.Clusters {
			if k.Clusters[i].Name == x.Cluster {
				c = &k.Clusters[i].Cluster
			}
		}
		if c == nil {
			return nil, nil, errNoCluster
		}
		if c.Server == "" {
			return nil, nil, errNoServerAddr
		}
		u := &user{}
		if x.User != "" {
			u = nil
		}
		for i := range k.Users {
			if k.Users[i].Name == x.User {
				u = &k.Users[i].User
			}
		}
		if u == nil {
			return nil, nil, errNoUser
		}
		if u.Exec != nil || u.AuthProvider != nil {
			return nil, nil, errUnsupported
		}
		return c, u, nil
	}
	return nil, nil, errNoContext
}
