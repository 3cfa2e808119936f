package simulated

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
)

const (
	leaseDuration = 40 // seconds
	// leaseTick is how far apart batches of renewals are.
	leaseTick = 50 * time.Millisecond
	// leaseWorkers renew; one renewal is short.
	leaseWorkers = 4
	// retryLease is the wait after a failure.
	retryLease = time.Second
)

// renewLeases renews the leases of all nodes, one after the other in a circle,
// so that each has its turn once in RenewInterval and the API never sees them
// all at once.
func (c *Cluster) renewLeases(ctx context.Context) {
	turns := make(chan *node)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(turns)
	for range min(leaseWorkers, len(c.nodes)) {
		wg.Go(func() {
			for n := range turns {
				if err := c.renew(ctx, n); err != nil {
					// Its next turn may be too late.
					c.nodeQueue.AddAfter(c.byName[n.name], retryLease)
				}
			}
		})
	}
	tick := time.NewTicker(leaseTick)
	defer tick.Stop()
	start, done := time.Now(), 0
	for {
		due := int(int64(time.Since(start)) * int64(len(c.nodes)) / int64(c.cfg.RenewInterval))
		if due-done > len(c.nodes) { // behind by a whole turn
			done = due - len(c.nodes)
		}
		for ; done < due; done++ {
			select {
			case turns <- c.nodes[done%len(c.nodes)]:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// renew writes one lease. It knows the version that it wrote last, so it need
// not read first; if that was wrong, it makes or reads the lease.
func (c *Cluster) renew(ctx context.Context, n *node) error {
	n.mu.Lock()
	uid, gone, version := n.uid, n.gone, n.lease
	n.mu.Unlock()
	if uid == "" || gone {
		return nil
	}
	now := metav1.NowMicro()
	seconds := int32(leaseDuration)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: n.name, ResourceVersion: version,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.name, UID: uid}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	version, err := c.putLease(ctx, l)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		var have *coordinationv1.Lease
		if have, err = c.leases.Get(ctx, l.Namespace, l.Name); err == nil {
			l.ResourceVersion = have.ResourceVersion
			version, err = c.putLease(ctx, l)
		}
	}
	if err != nil {
		version = ""
		if ctx.Err() == nil {
			c.log.Debug().Err(err).Str("node", n.name).Msg("cannot renew lease")
		}
	}
	n.mu.Lock()
	n.lease = version
	n.mu.Unlock()
	return err
}

// putLease creates the lease if it has no version and replaces it otherwise. It
// returns the new version.
func (c *Cluster) putLease(ctx context.Context, l *coordinationv1.Lease) (string, error) {
	body, err := api.Encode(l)
	if err != nil {
		return "", err
	}
	q := client.Request{Method: http.MethodPost, Path: client.Path(c.leases.Resource(), l.Namespace, ""), Body: body}
	if l.ResourceVersion != "" {
		q.Method, q.Path = http.MethodPut, client.Path(c.leases.Resource(), l.Namespace, l.Name)
	}
	resp, err := c.cfg.REST.Do(ctx, q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var out struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err = json.Unmarshal(data, &out)
	return out.Metadata.ResourceVersion, err
}
