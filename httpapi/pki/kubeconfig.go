package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is what a client needs to reach and enter a cluster.
type Kubeconfig struct {
	// Server is the URL of the API server.
	Server string
	// CA is the PEM of the root that the client trusts.
	CA []byte
	// Client is the client certificate and key; Token is used if it is empty.
	Client Pair
	Token  string
	// Cluster and User name the entries; the defaults are proa and admin.
	Cluster, User string
}

// Encode returns the kubeconfig as YAML.
func (k Kubeconfig) Encode() ([]byte, error) {
	if k.Cluster == "" {
		k.Cluster = "proa"
	}
	if k.User == "" {
		k.User = "admin"
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[k.Cluster] = &clientcmdapi.Cluster{Server: k.Server, CertificateAuthorityData: k.CA}
	c.AuthInfos[k.User] = &clientcmdapi.AuthInfo{
		ClientCertificateData: k.Client.Certificate,
		ClientKeyData:         k.Client.Key,
		Token:                 k.Token,
	}
	c.Contexts[k.Cluster] = &clientcmdapi.Context{Cluster: k.Cluster, AuthInfo: k.User}
	c.CurrentContext = k.Cluster
	return clientcmd.Write(*c)
}

// Write writes the kubeconfig to the path, with mode 0600, whole or not at
// all.
func (k Kubeconfig) Write(path string) error {
	data, err := k.Encode()
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := replaceFile(path, data); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
