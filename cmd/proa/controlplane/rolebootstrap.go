package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers/reconcile"
	"github.com/proa-project/proa/httpapi/authz/bootstrap"
	"github.com/proa-project/proa/httpapi/client"
)

// bootstrapWidth is how many of the first roles and bindings are written at a
// time: the storage commits them together.
const bootstrapWidth = 32

// A roleBootstrap brings roles and bindings up to those that every cluster has.
type roleBootstrap struct {
	log   zerolog.Logger
	kinds map[string]roleKind // by plural
}

// A roleKind reads and writes the objects of one kind.
type roleKind struct {
	list   func(ctx context.Context) ([]api.Object, error)
	create func(ctx context.Context, obj api.Object) error
	update func(ctx context.Context, obj api.Object) error
	remove func(ctx context.Context, obj api.Object) error
}

func newRoleBootstrap(rest *client.REST, log zerolog.Logger) *roleBootstrap {
	return &roleBootstrap{log: log, kinds: map[string]roleKind{
		"clusterroles":        roleKindOf[*rbacv1.ClusterRole](rest),
		"clusterrolebindings": roleKindOf[*rbacv1.ClusterRoleBinding](rest),
		"roles":               roleKindOf[*rbacv1.Role](rest),
		"rolebindings":        roleKindOf[*rbacv1.RoleBinding](rest),
	}}
}

func roleKindOf[T api.Object](rest *client.REST) roleKind {
	c := client.For[T](rest)
	with := func(f func(context.Context, T) (T, error)) func(context.Context, api.Object) error {
		return func(ctx context.Context, obj api.Object) error {
			o, ok := obj.(T)
			if !ok {
				return fmt.Errorf("a %T is none of %s", obj, c.Resource().Plural)
			}
			_, err := f(ctx, o)
			return err
		}
	}
	return roleKind{
		list: func(ctx context.Context) ([]api.Object, error) {
			l, err := c.List(ctx, "", metav1.ListOptions{ResourceVersion: "0"})
			out := make([]api.Object, 0, len(l.Items))
			for _, o := range l.Items {
				out = append(out, o)
			}
			return out, err
		},
		create: with(c.Create),
		update: with(c.Update),
		remove: func(ctx context.Context, obj api.Object) error {
			uid := obj.GetUID()
			return c.Delete(ctx, obj.GetNamespace(), obj.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		},
	}
}

// run tries until everything is there, or ctx is done. Other servers may do
// the same at the same time.
func (b *roleBootstrap) run(ctx context.Context) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := b.once(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		level := zerolog.DebugLevel // the namespaces, or others, are not there yet
		if wait > time.Second {
			level = zerolog.WarnLevel
		}
		b.log.WithLevel(level).Err(err).Msg("the first roles and bindings are not complete")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once reads what is there and writes what is lacking.
func (b *roleBootstrap) once(ctx context.Context) error {
	have := map[string]api.Object{}
	key := func(o api.Object) string { return api.ByType(o).Plural + "/" + o.GetNamespace() + "/" + o.GetName() }
	for plural, kind := range b.kinds {
		list, err := kind.list(ctx)
		if err != nil {
			return fmt.Errorf("list %s: %w", plural, err)
		}
		for _, o := range list {
			have[key(o)] = o
		}
	}
	var steps []func() error
	for _, want := range bootstrap.Objects() {
		there := have[key(want)]
		kind := b.kinds[api.ByType(want).Plural]
		step, next := bootstrap.Reconcile(there, want)
		if step == bootstrap.Keep {
			continue
		}
		steps = append(steps, func() error {
			if err := carryOut(ctx, kind, step, there, next); err != nil {
				return fmt.Errorf("write %s: %w", key(want), err)
			}
			return nil
		})
	}
	return reconcile.Parallel(ctx, len(steps), bootstrapWidth, func(i int) error { return steps[i]() })
}

func carryOut(ctx context.Context, kind roleKind, step bootstrap.Step, there, next api.Object) error {
	switch step {
	case bootstrap.Update:
		return kind.update(ctx, next)
	case bootstrap.Replace:
		if err := kind.remove(ctx, there); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return kind.create(ctx, next)
	default:
		err := kind.create(ctx, next)
		if apierrors.IsAlreadyExists(err) {
			return nil // by another server; what it lacks is the next start's
		}
		return err
	}
}
