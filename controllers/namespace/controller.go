package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/informers/workqueue"
)

// System are the namespaces that are always there.
var System = []string{ //nolint:gochecknoglobals // a constant list
	metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
}

// Config is what the loop needs. REST and Factory are required.
type Config struct {
	REST    *client.REST
	Factory *informers.Factory
	Metrics *workqueue.Metrics
	Log     zerolog.Logger
	// RootCA is the PEM of the CA that pods trust the API by; each namespace
	// gets it as a ConfigMap. Empty makes none.
	RootCA  string
	Workers int // default 5
}

// A Controller is the loop.
type Controller struct {
	cfg        Config
	namespaces *informers.Informer[*corev1.Namespace]
	accounts   *informers.Informer[*corev1.ServiceAccount]
	configs    *informers.Informer[*corev1.ConfigMap]
	nsC        *client.Client[*corev1.Namespace]
	accountsC  *client.Client[*corev1.ServiceAccount]
	configsC   *client.Client[*corev1.ConfigMap]
	queue      *workqueue.Queue[string]
}

// New returns the loop.
func New(cfg Config) *Controller {
	if cfg.Workers <= 0 {
		cfg.Workers = 5
	}
	c := &Controller{
		cfg: cfg, namespaces: informers.For[*corev1.Namespace](cfg.Factory),
		nsC: client.For[*corev1.Namespace](cfg.REST), accountsC: client.For[*corev1.ServiceAccount](cfg.REST),
		configsC: client.For[*corev1.ConfigMap](cfg.REST),
		queue:    workqueue.New[string](workqueue.Config{Name: "namespace", MaxDelay: 5 * time.Second, Metrics: cfg.Metrics}),
	}
	c.accounts = informers.New(informers.Options[*corev1.ServiceAccount]{
		Client: c.accountsC, FieldSelector: "metadata.name=" + defaultAccount, Log: cfg.Log,
	})
	if cfg.RootCA != "" {
		c.configs = informers.New(informers.Options[*corev1.ConfigMap]{
			Client: c.configsC, FieldSelector: "metadata.name=" + rootCAName, Log: cfg.Log,
		})
	}
	return c
}

// Scope declares the loop.
func (c *Controller) Scope() reconcile.Scope {
	return reconcile.Scope{
		Name:   "namespace",
		Reads:  []string{"namespaces", "serviceaccounts", "configmaps", "customresourcedefinitions"},
		Writes: []string{"namespaces/system", "namespaces/status", "namespaces/finalize", "serviceaccounts/default", "configmaps/" + rootCAName},
	}
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()                        // before the wait
	wg.Go(func() { c.accounts.Run(ctx) }) //nolint:errcheck // ends with ctx only
	regs := []*informers.Registration{c.watchNamespaces(), c.accounts.AddHandler(informers.Handler[*corev1.ServiceAccount]{
		Delete: func(o *corev1.ServiceAccount) { c.queue.Add(o.Namespace) },
	})}
	if c.configs != nil {
		wg.Go(func() { c.configs.Run(ctx) }) //nolint:errcheck // ends with ctx only
		regs = append(regs, c.configs.AddHandler(informers.Handler[*corev1.ConfigMap]{
			Update: func(_, o *corev1.ConfigMap) { c.queue.Add(o.Namespace) },
			Delete: func(o *corev1.ConfigMap) { c.queue.Add(o.Namespace) },
		}))
	}
	for _, r := range regs {
		defer r.Remove()
	}
	for _, r := range regs {
		if err := r.WaitForSync(ctx); err != nil {
			return err
		}
	}
	for _, name := range System {
		if _, ok := c.namespaces.Get("", name); !ok {
			c.queue.Add(name)
		}
	}
	reconcile.Workers(ctx, c.cfg.Workers, c.queue, c.cfg.Log, c.sync)
	return ctx.Err()
}

func (c *Controller) watchNamespaces() *informers.Registration {
	return c.namespaces.AddHandler(informers.Handler[*corev1.Namespace]{
		Add:    func(ns *corev1.Namespace, _ bool) { c.queue.Add(ns.Name) },
		Update: func(_, ns *corev1.Namespace) { c.queue.Add(ns.Name) },
		Delete: func(ns *corev1.Namespace) {
			if slices.Contains(System, ns.Name) {
				c.queue.Add(ns.Name)
			}
		},
	})
}

// sync brings one namespace a step further.
func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	ns, ok := c.namespaces.Get("", name)
	switch {
	case !ok && slices.Contains(System, name):
		return 0, c.createSystem(ctx, name)
	case !ok:
		return 0, nil
	case ns.DeletionTimestamp != nil:
		return 0, c.terminate(ctx, ns)
	}
	return 0, c.furnish(ctx, ns)
}

func (c *Controller) createSystem(ctx context.Context, name string) error {
	_, err := c.nsC.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %q: %w", name, err)
	}
	return nil
}

// furnish gives an active namespace what it lacks.
func (c *Controller) furnish(ctx context.Context, ns *corev1.Namespace) error {
	_, hasAccount := c.accounts.Get(ns.Name, defaultAccount)
	var have *corev1.ConfigMap
	if c.configs != nil {
		have, _ = c.configs.Get(ns.Name, rootCAName)
	}
	n := lacks(ns, hasAccount, have, c.cfg.RootCA)
	var errs []error
	if n.account {
		_, err := c.accountsC.Create(ctx, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: defaultAccount},
		})
		errs = append(errs, unlessMoot(err))
	}
	if n.rootCA {
		_, err := c.configsC.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: ns.Name, Name: rootCAName,
				Annotations: map[string]string{"kubernetes.io/description": "The certificate authority by which pods verify the API server."},
			},
			Data: map[string]string{rootCAKey: c.cfg.RootCA},
		})
		errs = append(errs, unlessMoot(err))
	}
	if n.fixCA {
		up := have.DeepCopy()
		up.Data = map[string]string{rootCAKey: c.cfg.RootCA}
		_, err := c.configsC.Update(ctx, up)
		errs = append(errs, unlessMoot(err))
	}
	return errors.Join(errs...)
}

// unlessMoot drops errors which say that somebody else was faster, or that the
// namespace is on its way out.
func unlessMoot(err error) error {
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("furnish namespace: %w", err)
}

// terminate empties a namespace and, when it is empty, lets it go.
func (c *Controller) terminate(ctx context.Context, ns *corev1.Namespace) error {
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return nil // others have to finish
	}
	s := c.purge(ctx, ns.Name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.empty() {
		return c.finalize(ctx, ns)
	}
	up := ns.DeepCopy()
	up.Status.Phase = corev1.NamespaceTerminating
	up.Status.Conditions = s.conditions(ns.Status.Conditions, time.Now())
	if !slices.Equal(up.Status.Conditions, ns.Status.Conditions) {
		_, err := c.nsC.UpdateStatus(ctx, up)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("write status of namespace: %w", err)
		}
	}
	if len(s.errors) > 0 {
		return fmt.Errorf("empty namespace: %w", errors.Join(s.errors...))
	}
	return reconcile.ErrLater
}

func (c *Controller) finalize(ctx context.Context, ns *corev1.Namespace) error {
	up := ns.DeepCopy()
	up.Spec.Finalizers = withoutKubernetes(ns.Spec.Finalizers)
	up.Status.Phase = corev1.NamespaceTerminating
	err := c.cfg.REST.Put(ctx, c.nsC.Resource(), "", ns.Name, "finalize", up, nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalize namespace: %w", err)
	}
	return nil
}

// purge deletes what is in a namespace: pods first, so that nothing they need
// goes before them, and then everything else.
func (c *Controller) purge(ctx context.Context, ns string) *survey {
	s := &survey{}
	var rest []*api.Resource
	for _, r := range slices.Concat(api.Resources(), c.defined(ctx, s)) {
		if !r.Namespaced || r.StoredAs != nil || !slices.Contains(r.Verbs, "delete") || !slices.Contains(r.Verbs, "list") {
			continue
		}
		if r.Group == "" && r.Plural == "pods" {
			c.purgeResource(ctx, r, ns, s)
			continue
		}
		rest = append(rest, r)
	}
	if !s.empty() {
		return s
	}
	for _, r := range rest {
		c.purgeResource(ctx, r, ns, s)
	}
	return s
}

// defined returns the kinds that users have defined.
func (c *Controller) defined(ctx context.Context, s *survey) []*api.Resource {
	list, err := client.For[*apiextensionsv1.CustomResourceDefinition](c.cfg.REST).List(ctx, "", metav1.ListOptions{})
	if err != nil {
		s.errors = append(s.errors, fmt.Errorf("list definitions: %w", err))
		return nil
	}
	var rows []*api.Resource
	for _, crd := range list.Items {
		if r := api.Defined(crd); r != nil {
			rows = append(rows, r)
		}
	}
	return rows
}

func (c *Controller) purgeResource(ctx context.Context, r *api.Resource, ns string, s *survey) {
	metas := client.Metadata(c.cfg.REST, r)
	fail := func(verb string, err error) {
		s.errors = append(s.errors, fmt.Errorf("%s %s: %w", verb, r.GR().String(), err))
	}
	have, err := metas.List(ctx, ns, metav1.ListOptions{})
	if err != nil {
		fail("list", err)
		return
	}
	if len(have.Items) == 0 {
		return
	}
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	if slices.Contains(r.Verbs, "deletecollection") {
		if slices.ContainsFunc(have.Items, notDeleted) {
			if err = c.cfg.REST.DeleteCollection(ctx, r, ns, o, metav1.ListOptions{}); err != nil {
				fail("delete", err)
			}
		}
	} else {
		for _, m := range have.Items {
			if err = metas.Delete(ctx, ns, m.Name, o); err != nil && !apierrors.IsNotFound(err) {
				fail("delete", err)
			}
		}
	}
	left, err := metas.List(ctx, ns, metav1.ListOptions{})
	if err != nil {
		fail("list", err)
		return
	}
	if len(left.Items) == 0 {
		return
	}
	rem := remnant{resource: r.Plural + "." + r.Group, count: len(left.Items), finalizers: map[string]int{}}
	for _, m := range left.Items {
		for _, f := range m.Finalizers {
			rem.finalizers[f]++
		}
	}
	s.left = append(s.left, rem)
}

func notDeleted(m *metav1.PartialObjectMetadata) bool { return m.DeletionTimestamp == nil }
