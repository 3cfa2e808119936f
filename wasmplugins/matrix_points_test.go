package wasmplugins_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// What a plugin may say, beside a failure.
const (
	passes  = "passes"
	denies  = "denies"
	mutates = "mutates"
)

// A place is an extension point as the matrix asks it. What is asked says how
// the plugin judged, or returns an error with the engine's reason.
type place struct {
	name, kind string
	letter     byte // the function of scheduling that shows the behavior
	ask        func(ctx context.Context, m *matrix, plugin string) (said string, err error)
	// alone says that requests wait for each other by contract, such as
	// scheduling cycles: then others than those keep their pace.
	alone bool
	// slow says that asking is not a matter of microseconds.
	slow bool
}

func (p *place) settings() string {
	if p.letter == 0 {
		return ""
	}
	return fmt.Sprintf(`{"%c":1}`, p.letter)
}

// places are the extension points.
func places() []*place {
	return append([]*place{
		{name: "mutate", kind: "mutate", ask: askAdmission(pluginsv1.PhaseMutate)},
		{name: "validate", kind: "validate", ask: askAdmission(pluginsv1.PhaseValidate)},
		{name: "authorize", kind: "authorize", ask: askAuthorization},
		{name: "authenticate", kind: "authenticate", ask: askAuthentication},
		{name: "convert", kind: "convert", ask: askConversion},
		{name: "virtual API", kind: "serve", ask: askVirtual},
		{name: "reconcile", kind: "reconcile", ask: askReconciler, alone: true, slow: true},
	}, schedulerPlaces()...)
}

// reasonOf is the engine's reason, whoever tells it.
func reasonOf(err error) engine.Reason {
	if f, ok := errors.AsType[*policy.Failure](err); ok {
		return engine.Reason(f.Reason)
	}
	return engine.ReasonOf(err)
}

// failed makes an error of a text that names the reason, "" is none.
func failed(text string) error {
	if _, rest, ok := strings.Cut(text, " failed: "); ok {
		reason, detail, _ := strings.Cut(rest, ":")
		return &engine.Error{Reason: engine.Reason(reason), Detail: detail}
	}
	return nil
}

// serial tells requests apart.
var serial atomic.Int64 // of all tests: what is asked must be new

func askAdmission(phase pluginsv1.Phase) func(context.Context, *matrix, string) (string, error) {
	return func(ctx context.Context, m *matrix, plugin string) (string, error) {
		set, err := m.f.host.Admission.Policies(ctx)
		if err != nil {
			return "", err
		}
		list := set.Validate
		if phase == pluginsv1.PhaseMutate {
			list = set.Mutate
		}
		for _, p := range list {
			if p.ID().Name == plugin {
				return judge(ctx, p, phase, plugin)
			}
		}
		return "", fmt.Errorf("there is no policy %q", plugin)
	}
}

func judge(ctx context.Context, p policy.Policy, phase pluginsv1.Phase, plugin string) (string, error) {
	r := &admission.Request{
		UID: fmt.Sprintf("u-%d", serial.Add(1)), Operation: admission.Create, Resource: api.ByGVR("", "v1", "configmaps"),
		Namespace: "default", Name: "a", User: &request.User{Name: "alice"},
	}
	in := &policy.Input{
		Request: r, Phase: phase, Deadline: time.Now().Add(time.Minute),
		Object: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","labels":{"matrix":"` + plugin + `"}}}`),
	}
	v, err := p.Judge(ctx, in)
	switch {
	case err != nil:
		return "", err
	case v.Denied != nil && strings.Contains(v.Denied.Message, "not today"):
		return denies, nil
	case v.Denied != nil:
		return v.Denied.Message, nil
	case strings.Contains(string(v.Patch)+string(v.Object), "evil"):
		return mutates, nil
	case v.Skipped:
		return "skipped", nil
	}
	return passes, nil
}

func askAuthorization(ctx context.Context, m *matrix, plugin string) (string, error) {
	info := &request.Info{Verb: "get", Resource: api.ByGVR("", "v1", "secrets"), Namespace: "default", Name: "s"}
	d, reason, err := m.f.host.Authorization.After().Authorize(ctx, &request.User{Name: plugin}, info)
	switch {
	case err != nil:
		return "", err
	case d == authz.Deny && reason == "not today":
		return denies, nil
	case d == authz.Allow && reason == "fine":
		return passes, nil
	}
	return fmt.Sprint(d, reason), failed(reason)
}

func askAuthentication(ctx context.Context, m *matrix, plugin string) (string, error) {
	u, err := m.f.host.Authentication.VerifyToken(ctx, fmt.Sprintf("%s-%d", plugin, serial.Add(1)))
	switch {
	case err != nil:
		return "", errors.Join(err, failed(err.Error()))
	case u == nil:
		return denies, nil
	}
	return passes, nil
}

func askConversion(ctx context.Context, m *matrix, plugin string) (string, error) {
	in := [][]byte{[]byte(`{"apiVersion":"example.test/v1","kind":"Thing","metadata":{"name":"a"}}`)}
	out, err := m.f.host.Conversion.Convert(ctx, "things."+plugin, in, "example.test/v2")
	switch {
	case errors.Is(err, abi.ErrConversion):
		return denies, nil
	case err != nil:
		return "", err
	case strings.Contains(string(out[0]), "evil"):
		return mutates, nil
	}
	return passes, nil
}

func askVirtual(ctx context.Context, m *matrix, plugin string) (string, error) {
	w := httptest.NewRecorder()
	m.f.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/apis/"+plugin+".example.test/v1/things/a", nil))
	code, text := w.Code, w.Body.String()
	switch {
	case code == http.StatusOK && strings.Contains(text, "evil"):
		return mutates, nil
	case code == http.StatusOK:
		return passes, nil
	case code == http.StatusForbidden && strings.Contains(text, "not today"):
		return denies, nil
	}
	return fmt.Sprint(code, text), failed(text)
}

// askReconciler has an object looked at, and waits for what becomes of it.
func askReconciler(ctx context.Context, m *matrix, plugin string) (said string, err error) {
	f := m.f
	reconcilers := client.For[*pluginsv1.Reconciler](f.rest)
	_, err = f.namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: named(plugin)})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	before, err := reconcilers.Get(ctx, "", plugin)
	if err != nil {
		return "", err
	}
	if err := f.configMaps.Delete(ctx, plugin, "child", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return "", err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-", Namespace: plugin, Labels: map[string]string{"reconcile": plugin}}}
	if cm, err = f.configMaps.Create(ctx, cm); err != nil {
		return "", err
	}
	f.until("the reconciler "+plugin+" is called", func() bool {
		r, getErr := reconcilers.Get(ctx, "", plugin)
		if getErr != nil {
			err = getErr
			return true
		}
		if r.Status.Failures > before.Status.Failures {
			err = &engine.Error{Reason: engine.Reason(r.Status.LastFailure.Reason), Detail: r.Status.LastFailure.Message}
			return true
		}
		if c := meta.FindStatusCondition(r.Status.Conditions, "Reconciling"); c != nil && strings.Contains(c.Message, "not today") {
			said = denies
			return true
		}
		child, getErr := f.configMaps.Get(ctx, plugin, "child")
		if getErr != nil {
			return false
		}
		said = passes
		if child.Data["by"] == "evil" {
			said = mutates
		}
		return true
	})
	return said, errors.Join(err, f.configMaps.Delete(ctx, plugin, cm.Name, metav1.DeleteOptions{}))
}
