package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// handlers checks the probes and hooks of a container that keeps running.
func handlers(f *faults, ctx *podContext, c *corev1.Container, p *field.Path) {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if g := ctx.spec.TerminationGracePeriodSeconds; g != nil {
		grace = *g
	}
	if l := c.Lifecycle; l != nil {
		path := p.Child("lifecycle")
		if l.PostStart != nil {
			handler(f, *l.PostStart, nil, grace, path.Child("postStart"))
		}
		if l.PreStop != nil {
			handler(f, *l.PreStop, nil, grace, path.Child("preStop"))
		}
		if l.StopSignal != nil && (ctx.spec.OS == nil || ctx.spec.OS.Name == "") {
			f.add(field.Forbidden(path.Child("stopSignal"), "may not be set for containers with empty `spec.os.name`"))
		}
	}
	if probe(f, c.LivenessProbe, grace, p.Child("livenessProbe")) && c.LivenessProbe.SuccessThreshold != 1 {
		f.invalid(p.Child("livenessProbe", "successThreshold"), c.LivenessProbe.SuccessThreshold, "must be 1")
	}
	if probe(f, c.ReadinessProbe, grace, p.Child("readinessProbe")) && c.ReadinessProbe.TerminationGracePeriodSeconds != nil {
		f.invalid(p.Child("readinessProbe", "terminationGracePeriodSeconds"), *c.ReadinessProbe.TerminationGracePeriodSeconds,
			"must not be set for readinessProbes")
	}
	if probe(f, c.StartupProbe, grace, p.Child("startupProbe")) && c.StartupProbe.SuccessThreshold != 1 {
		f.invalid(p.Child("startupProbe", "successThreshold"), c.StartupProbe.SuccessThreshold, "must be 1")
	}
}

// noHandlers checks a container that runs to its end before the others start.
func noHandlers(f *faults, c *corev1.Container, p *field.Path) {
	for _, h := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
	} {
		if h.set {
			f.add(field.Forbidden(p.Child(h.name), "may not be set for init containers without restartPolicy=Always"))
		}
	}
}

// probe checks a probe and says whether there is one.
func probe(f *faults, b *corev1.Probe, grace int64, path *field.Path) bool {
	if b == nil {
		return false
	}
	handler(f, corev1.LifecycleHandler{Exec: b.Exec, HTTPGet: b.HTTPGet, TCPSocket: b.TCPSocket}, b.GRPC, grace, path)
	f.nonNegative(path.Child("initialDelaySeconds"), int64(b.InitialDelaySeconds))
	f.nonNegative(path.Child("timeoutSeconds"), int64(b.TimeoutSeconds))
	f.nonNegative(path.Child("periodSeconds"), int64(b.PeriodSeconds))
	f.nonNegative(path.Child("successThreshold"), int64(b.SuccessThreshold))
	f.nonNegative(path.Child("failureThreshold"), int64(b.FailureThreshold))
	if g := b.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		f.invalid(path.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0")
	}
	return true
}

// handler checks that exactly one of the actions is there, and that it is right.
func handler(f *faults, h corev1.LifecycleHandler, grpc *corev1.GRPCAction, grace int64, path *field.Path) {
	n := choose(f, path, "may not specify more than 1 handler type",
		choice{"exec", h.Exec != nil, func(p *field.Path) {
			if len(h.Exec.Command) == 0 {
				f.required(p.Child("command"))
			}
		}},
		choice{"httpGet", h.HTTPGet != nil, func(p *field.Path) { httpGet(f, h.HTTPGet, p) }},
		choice{"tcpSocket", h.TCPSocket != nil, func(p *field.Path) { portOrName(f, h.TCPSocket.Port, p) }},
		choice{"grpc", grpc != nil, func(p *field.Path) { portOrName(f, intstr.FromInt32(grpc.Port), p) }},
		choice{"sleep", h.Sleep != nil, func(p *field.Path) {
			if h.Sleep.Seconds < 0 || h.Sleep.Seconds > grace {
				f.invalid(p, h.Sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", grace))
			}
		}},
	)
	if n == 0 {
		f.add(field.Required(path, "must specify a handler type"))
	}
}

func httpGet(f *faults, a *corev1.HTTPGetAction, path *field.Path) {
	f.needed(path.Child("path"), a.Path, nil)
	portOrName(f, a.Port, path)
	oneOf(f, path.Child("scheme"), a.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for _, h := range a.HTTPHeaders {
		f.invalid(path.Child("httpHeaders"), h.Name, validation.IsHTTPHeaderName(h.Name)...)
	}
}

func portOrName(f *faults, port intstr.IntOrString, path *field.Path) {
	if port.Type == intstr.Int {
		f.invalid(path.Child("port"), port.IntValue(), validation.IsValidPortNum(port.IntValue())...)
	} else {
		f.invalid(path.Child("port"), port.StrVal, validation.IsValidPortName(port.StrVal)...)
	}
}
