package simulated

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

// Annotations by which a pod says what it does on a simulated node.
const (
	AnnotationRunSeconds   = "simulated.proa.io/run-seconds"
	AnnotationExitCode     = "simulated.proa.io/exit-code"
	AnnotationStartSeconds = "simulated.proa.io/start-seconds"
)

// Config describes the nodes. REST is required.
type Config struct {
	REST *client.REST
	// Factory, if set, shares its informers of pods and nodes; without it the
	// nodes have their own.
	Factory *informers.Factory
	Log     zerolog.Logger

	// Count is the number of nodes.
	Count int
	// NamePrefix makes the names, with the number of the node from 0 on;
	// default "sim-".
	NamePrefix string
	// Capacity is what each node offers; default 8 CPUs, 32 GiB of memory,
	// 100 GiB of ephemeral storage and 110 pods.
	Capacity corev1.ResourceList
	// Zones are given out in turn; default "zone-1" to "zone-3".
	Zones []string
	// Labels are added to those that every node has.
	Labels map[string]string
	// Taints are those of every node.
	Taints []corev1.Taint

	// StartLatency is how long containers, and each init container, take;
	// default 50 ms, below 0 none. StartJitter adds up to that time more, by
	// the pod's UID.
	StartLatency, StartJitter time.Duration
	// RenewInterval is the time between two renewals of a node's lease; the
	// lease lasts 40 s. The default is 10 s, as on real nodes, and above 2,500
	// nodes so much longer that no more than 250 are renewed in a second, up
	// to 20 s.
	RenewInterval time.Duration
	// Workers is how many writes may be under way at one time, default 16.
	Workers int

	// PodNetwork and NodeNetwork are where addresses come from; default
	// 10.128.0.0/9 and 100.64.0.0/10. Nothing listens there.
	PodNetwork, NodeNetwork netip.Prefix
	// Version is the kubelet version that the nodes show, default "v1.37.2".
	Version string
}

func (c *Config) setDefaults() error {
	if c.REST == nil {
		return errors.New("simulated nodes: REST is required")
	}
	if c.Count < 0 {
		return fmt.Errorf("simulated nodes: negative count %d", c.Count)
	}
	if c.NamePrefix == "" {
		c.NamePrefix = "sim-"
	}
	if msgs := validation.IsDNS1123Subdomain(c.NamePrefix + "0"); len(msgs) > 0 {
		return fmt.Errorf("simulated nodes: name prefix %q: %s", c.NamePrefix, strings.Join(msgs, ", "))
	}
	if c.Capacity == nil {
		c.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("8"),
			corev1.ResourceMemory:           resource.MustParse("32Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
			corev1.ResourcePods:             resource.MustParse("110"),
		}
	}
	if len(c.Zones) == 0 {
		c.Zones = []string{"zone-1", "zone-2", "zone-3"}
	}
	if c.StartLatency == 0 {
		c.StartLatency = 50 * time.Millisecond
	}
	c.StartLatency, c.StartJitter = max(c.StartLatency, 0), max(c.StartJitter, 0)
	if c.RenewInterval <= 0 {
		c.RenewInterval = min(max(time.Duration(c.Count)*4*time.Millisecond, 10*time.Second), 20*time.Second)
	}
	if c.Workers <= 0 {
		c.Workers = 16
	}
	if !c.PodNetwork.IsValid() {
		c.PodNetwork = netip.MustParsePrefix("10.128.0.0/9")
	}
	if !c.NodeNetwork.IsValid() {
		c.NodeNetwork = netip.MustParsePrefix("100.64.0.0/10")
	}
	if c.Version == "" {
		c.Version = "v1.37.2"
	}
	if !c.PodNetwork.Addr().Is4() || !c.NodeNetwork.Addr().Is4() {
		return errors.New("simulated nodes: the networks must be IPv4")
	}
	if c.Count > 1<<(32-c.NodeNetwork.Bits())-2 {
		return fmt.Errorf("simulated nodes: network %v has no addresses for %d nodes", c.NodeNetwork, c.Count)
	}
	return nil
}
