// Package capability answers the host calls of guests: it is what a plugin can
// know of the world beside what it is asked.
//
// A call is answered if both sides name its operation: the module's manifest,
// by which its author says what it wants, and the object that binds the module,
// by which an administrator says what it gets and how far. A call that one of
// them does not name ends the plugin's call with CapabilityDenied. So does one
// that goes beyond what the binding grants, such as another kind or host: it is
// a mistake in the configuration, which nobody should find out from a policy
// that quietly judges without having seen what it asked for.
//
// What the API has is read with the rights of the binding's ServiceAccount, on
// top of the grant. Without that right, as for an object that is not there, the
// guest gets an error as its answer and goes on.
package capability

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// Config configures a Broker. REST and Authorize are required.
type Config struct {
	// REST reads the API with all rights; whose rights count is checked before.
	REST *client.REST
	// Authorize is the server's own authorizer.
	Authorize func(ctx context.Context, u *request.User, i *request.Info) (authz.Decision, string, error)
	// Hosts are those that the operator allows for http, each as host or
	// host:port. Without any, no plugin reaches the network.
	Hosts []string
	// HTTP carries the requests to them. Default is a transport without proxy.
	HTTP *http.Transport
	// Now tells the time; nil is time.Now.
	Now func() time.Time
}

// A Broker answers host calls. It is safe for concurrent use.
type Broker struct {
	c    Config
	hand map[string]handler
}

// A handler answers one operation of a holder.
type handler func(ctx context.Context, h *holder, c *pluginsv1.Capability, request []byte) ([]byte, error)

// New returns a Broker.
func New(c Config) (*Broker, error) {
	if c.REST == nil || c.Authorize == nil {
		return nil, errors.New("capabilities: REST and Authorize are required")
	}
	if c.HTTP == nil {
		c.HTTP = newTransport()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	b := &Broker{c: c}
	b.hand = map[string]handler{
		pluginsv1.CapabilityKubeGet:   b.kubeGet,
		pluginsv1.CapabilityKubeList:  b.kubeList,
		pluginsv1.CapabilityCanI:      b.canI,
		pluginsv1.CapabilityClockWall: b.clockWall,
		pluginsv1.CapabilityRandom:    random,
		pluginsv1.CapabilityHTTP:      b.http,
		pluginsv1.CapabilityConfig:    b.configRead,
	}
	return b, nil
}

// Close ends connections that wait for another request.
func (b *Broker) Close() { b.c.HTTP.CloseIdleConnections() }

// A holder is a plugin with what it is granted. It does not change.
type holder struct {
	user    *request.User // nil if the binding names no ServiceAccount
	granted map[string]*pluginsv1.Capability
	wanted  []string
	masks   map[*pluginsv1.CapabilityResource]*mask
}

// Grant returns how the host calls of a module are answered for a binding, and
// the names of those that are in force, in order: http is not unless the
// operator allows a host. It is a runner.Grant.
func (b *Broker) Grant(c *pluginsv1.Common, m abi.Manifest) (call func(ctx context.Context, operation string, request []byte) ([]byte, error), inForce []string) {
	h := &holder{granted: map[string]*pluginsv1.Capability{}, wanted: slices.Clone(m.Capabilities), masks: map[*pluginsv1.CapabilityResource]*mask{}}
	if a := c.ServiceAccount; a != nil {
		h.user = ServiceAccount(a)
	}
	for i := range c.Capabilities {
		granted := c.Capabilities[i].DeepCopy() // the object is shared
		off := granted.Name == pluginsv1.CapabilityHTTP && len(b.c.Hosts) == 0
		if slices.Contains(h.wanted, granted.Name) && h.granted[granted.Name] == nil && !off {
			inForce = append(inForce, granted.Name)
		}
		h.grant(granted)
	}
	slices.Sort(inForce)
	return func(ctx context.Context, operation string, req []byte) ([]byte, error) {
		return b.answer(ctx, h, operation, req)
	}, inForce
}

// grant adds a capability. One that is named twice grants what both do.
func (h *holder) grant(c *pluginsv1.Capability) {
	if before := h.granted[c.Name]; before != nil {
		before.Resources = append(before.Resources, c.Resources...)
		before.Hosts = append(before.Hosts, c.Hosts...)
		before.ConfigMaps = append(before.ConfigMaps, c.ConfigMaps...)
		c = before
	}
	h.granted[c.Name] = c
	clear(h.masks) // the elements may have moved
	for _, c := range h.granted {
		for i := range c.Resources {
			h.masks[&c.Resources[i]] = newMask(c.Resources[i].Fields)
		}
	}
}

// ServiceAccount returns the user that a ServiceAccount is.
func ServiceAccount(a *pluginsv1.ServiceAccountReference) *request.User {
	return &request.User{
		Name:   request.ServiceAccountUser(a.Namespace, a.Name),
		Groups: []string{request.ServiceAccounts, request.ServiceAccounts + ":" + a.Namespace, request.Authenticated},
	}
}

// denied is the error that ends the guest's call.
func denied(format string, args ...any) error {
	return &engine.Error{Reason: engine.CapabilityDenied, Detail: fmt.Sprintf(format, args...)}
}

type depthKey struct{}

// maxDepth is how many host calls may be under way for the sake of each other:
// an authorizer that is a plugin may be asked for another plugin's right to
// read, and may itself want to know something.
const maxDepth = 3

// answer answers one call.
func (b *Broker) answer(ctx context.Context, h *holder, operation string, req []byte) ([]byte, error) {
	hand := b.hand[operation]
	if hand == nil {
		return nil, denied("called %q, which this server does not offer", operation)
	}
	granted := h.granted[operation]
	wanted := slices.Contains(h.wanted, operation)
	switch {
	case granted == nil && !wanted:
		return nil, denied("called %q, which neither the module's manifest names nor the binding grants", operation)
	case granted == nil:
		return nil, denied("called %q, which the module's manifest names but the binding does not grant", operation)
	case !wanted:
		return nil, denied("called %q, which the binding grants but the module's manifest does not name", operation)
	}
	depth, _ := ctx.Value(depthKey{}).(int) // 0 is the answer
	if depth >= maxDepth {
		return nil, fmt.Errorf("%s: plugins ask each other in a circle", operation)
	}
	return hand(context.WithValue(ctx, depthKey{}, depth+1), h, granted, req)
}

// decode reads a request.
func decode(operation string, b []byte, into any) error {
	if len(b) == 0 {
		return nil // as an empty object
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: the request cannot be read: %w", operation, err)
	}
	return nil
}

// clockWall tells the time.
func (b *Broker) clockWall(context.Context, *holder, *pluginsv1.Capability, []byte) ([]byte, error) {
	return json.Marshal(struct {
		UnixNanos int64 `json:"unixNanos"`
	}{b.c.Now().UnixNano()})
}

// maxRandom bounds the bytes of one call.
const maxRandom = 4096

// random answers with bytes that nobody can foretell.
func random(_ context.Context, _ *holder, _ *pluginsv1.Capability, req []byte) ([]byte, error) {
	var q struct {
		Bytes int `json:"bytes"`
	}
	if err := decode(pluginsv1.CapabilityRandom, req, &q); err != nil {
		return nil, err
	}
	if q.Bytes < 1 || q.Bytes > maxRandom {
		return nil, fmt.Errorf("random: bytes must be between 1 and %d", maxRandom)
	}
	p := make([]byte, q.Bytes)
	_, _ = rand.Read(p) // never fails
	return json.Marshal(struct {
		Base64 string `json:"base64"`
	}{base64.StdEncoding.EncodeToString(p)})
}
