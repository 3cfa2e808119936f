package nodeagent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/nodeagent/cri"
)

// sources reads what pods refer to. What was read a moment ago is not read
// again: the pods of a Deployment come together.
type sources struct {
	agent      *Agent
	configMaps cached[*corev1.ConfigMap]
	secrets    cached[*corev1.Secret]
}

func newSources(a *Agent) *sources {
	s := &sources{agent: a}
	s.configMaps = newCached("configmap", client.For[*corev1.ConfigMap](a.REST).Get)
	s.secrets = newCached("secret", client.For[*corev1.Secret](a.REST).Get)
	return s
}

// ConfigMap returns a ConfigMap, not to be changed.
func (s *sources) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return s.configMaps.get(ctx, namespace, name)
}

// Secret returns a Secret, not to be changed.
func (s *sources) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return s.secrets.get(ctx, namespace, name)
}

// Allocatable returns what the node has for pods.
func (s *sources) Allocatable(name corev1.ResourceName) resource.Quantity {
	return s.agent.node.allocatable()[name]
}

// Token asks for a token of the pod's service account.
func (s *sources) Token(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, time.Time, error) {
	seconds := int64(3600)
	if p.ExpirationSeconds != nil {
		seconds = *p.ExpirationSeconds
	}
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if p.Audience != "" {
		req.Spec.Audiences = []string{p.Audience}
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	resp := &authenticationv1.TokenRequest{}
	accounts := api.ByGVR("", "v1", "serviceaccounts")
	if err := s.agent.REST.Post(ctx, accounts, pod.Namespace, account, "token", req, resp); err != nil {
		return "", time.Time{}, fmt.Errorf("failed to fetch token: %w", err)
	}
	left := time.Until(resp.Status.ExpirationTimestamp.Time)
	return resp.Status.Token, time.Now().Add(left * 4 / 5), nil
}

const cacheFor = time.Second

// A cached remembers answers for a second.
type cached[T api.Object] struct {
	kind  string
	fetch func(ctx context.Context, namespace, name string) (T, error)
	mu    *sync.Mutex // guards known
	known map[string]*answer[T]
}

type answer[T any] struct {
	once  sync.Once
	obj   T
	err   error
	until time.Time
}

func newCached[T api.Object](kind string, fetch func(context.Context, string, string) (T, error)) cached[T] {
	return cached[T]{kind: kind, fetch: fetch, mu: &sync.Mutex{}, known: map[string]*answer[T]{}}
}

func (c *cached[T]) get(ctx context.Context, namespace, name string) (T, error) {
	now := time.Now()
	key := namespace + "/" + name
	c.mu.Lock()
	a := c.known[key]
	if a == nil || now.After(a.until) {
		for k, old := range c.known {
			if now.After(old.until) {
				delete(c.known, k)
			}
		}
		a = &answer[T]{until: now.Add(cacheFor)}
		c.known[key] = a
	}
	c.mu.Unlock()
	a.once.Do(func() { a.obj, a.err = c.fetch(ctx, namespace, name) })
	if a.err == nil {
		return a.obj, nil
	}
	c.mu.Lock()
	if c.known[key] == a {
		delete(c.known, key)
	}
	c.mu.Unlock()
	if apierrors.IsNotFound(a.err) {
		return a.obj, &notFoundError{fmt.Sprintf("%s %q not found", c.kind, name)}
	}
	return a.obj, a.err
}

// A notFoundError is an apierrors.IsNotFound with the text that users know.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string { return e.text }

// Status makes it an apierrors.APIStatus.
func (e *notFoundError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404, Message: e.text}
}

// pull pulls an image with the credentials that the pod's secrets have.
func (w *worker) pull(ctx context.Context, pod *corev1.Pod, image string) (string, error) {
	auths := []*cri.Auth{}
	for _, ref := range pod.Spec.ImagePullSecrets {
		s, err := w.agent.sources.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			w.agent.events.Eventf(pod, corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", ref.Name)
			continue
		}
		if a := credentials(s, image); a != nil {
			auths = append(auths, a)
		}
	}
	if len(auths) == 0 {
		return w.agent.Runtime.Pull(ctx, image, nil)
	}
	var ref string
	var err error
	for _, a := range auths {
		if ref, err = w.agent.Runtime.Pull(ctx, image, a); err == nil {
			return ref, nil
		}
	}
	return "", err
}

// credentials returns what a pull secret has for an image's registry.
func credentials(s *corev1.Secret, image string) *cri.Auth {
	type entry struct{ Username, Password, Auth, IdentityToken, RegistryToken string }
	var config struct{ Auths map[string]entry }
	switch {
	case s.Data[corev1.DockerConfigJsonKey] != nil:
		if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &config) != nil {
			return nil
		}
	case s.Data[corev1.DockerConfigKey] != nil:
		if json.Unmarshal(s.Data[corev1.DockerConfigKey], &config.Auths) != nil {
			return nil
		}
	}
	var best *cri.Auth
	longest := -1
	for server, e := range config.Auths {
		prefix := strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
		prefix = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(prefix, "/"), "/v1"), "/v2")
		if (image == prefix || strings.HasPrefix(image, prefix+"/")) && len(prefix) > longest {
			longest = len(prefix)
			best = &cri.Auth{
				Username: e.Username, Password: e.Password, Auth: e.Auth, ServerAddress: server,
				IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
			}
		}
	}
	return best
}
