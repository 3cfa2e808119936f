package integration_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/test/cluster"
)

// inForce waits until a dry run of a write has an answer that done accepts:
// policies follow their objects a moment later.
func inForce(t *testing.T, c *kubernetes.Clientset, pod *corev1.Pod, done func(*corev1.Pod, error) bool) (*corev1.Pod, error) {
	t.Helper()
	var got *corev1.Pod
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		got, last = c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return done(got, last), nil
	})
	if err != nil {
		t.Fatalf("it does not come into force: %v; the last answer is %v", err, last)
	}
	return got, last
}

func fromYAML[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

const matchPods = `matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}`

func webPod(image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

// Policies in CEL that a stock client creates decide about writes, with
// parameters, and are refused when they do not compile.
func TestCELPolicies(t *testing.T) {
	cl := cluster.Start(t, cluster.Config{})
	c, ctx := clients(t, cl), t.Context()
	ar := c.AdmissionregistrationV1()

	_, err := ar.ValidatingAdmissionPolicies().Create(ctx, fromYAML[admissionregistrationv1.ValidatingAdmissionPolicy](t, `{metadata: {name: bad}, spec: {`+matchPods+`, validations: [{expression: "objekt.x"}]}}`), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "undeclared reference to 'objekt'") {
		t.Errorf("a policy that does not compile: %v", err)
	}
	if _, err = c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "rules"}, Data: map[string]string{"registry": "good.example.test"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created, err := ar.ValidatingAdmissionPolicies().Create(ctx, fromYAML[admissionregistrationv1.ValidatingAdmissionPolicy](t, `{metadata: {name: images}, spec: {`+matchPods+`, paramKind: {apiVersion: v1, kind: ConfigMap},
		validations: [{expression: "object.spec.containers.all(c, c.image.startsWith(params.data.registry))", messageExpression: "'images come from ' + params.data.registry", reason: Forbidden}]}}`), metav1.CreateOptions{})
	if err != nil || created.Generation != 1 || *created.Spec.FailurePolicy != admissionregistrationv1.Fail {
		t.Fatal(created, err)
	}
	if _, err = ar.ValidatingAdmissionPolicyBindings().Create(ctx, fromYAML[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, `{metadata: {name: all}, spec: {policyName: images, validationActions: [Deny], paramRef: {name: rules, parameterNotFoundAction: Deny}}}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = inForce(t, c, webPod("bad.example.test/web:1"), func(_ *corev1.Pod, err error) bool { return err != nil })
	const want = `pods "web" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'all' denied request: images come from good.example.test`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}

	if _, err = ar.MutatingAdmissionPolicies().Create(ctx, fromYAML[admissionregistrationv1.MutatingAdmissionPolicy](t, `{metadata: {name: side}, spec: {`+matchPods+`, reinvocationPolicy: Never, mutations: [
		{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'good.example.test/side:1'}]}}"}},
		{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.test/by'), value: request.userInfo.username.replace(':', '-')}]"}}]}}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err = ar.MutatingAdmissionPolicyBindings().Create(ctx, fromYAML[admissionregistrationv1.MutatingAdmissionPolicyBinding](t, `{metadata: {name: all}, spec: {policyName: side}}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := inForce(t, c, webPod("good.example.test/web:1"), func(p *corev1.Pod, err error) bool { return err != nil || len(p.Spec.Containers) == 2 })
	if err != nil || got.Spec.Containers[1].Image != "good.example.test/side:1" || got.Spec.Containers[1].ImagePullPolicy == "" || got.Labels["example.test/by"] == "" {
		t.Errorf("got %v, %v", got, err)
	}
}

// Webhooks that a stock client registers are asked, and one that fails can be
// taken away while it refuses everything.
func TestWebhooks(t *testing.T) {
	patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/metadata/labels/hooked","value":"yes"}]`))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		answer := `"allowed":false,"status":{"message":"not today"}`
		if r.URL.Path == "/mutate" {
			answer = `"allowed":true,"patchType":"JSONPatch","patch":"` + patch + `"`
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,%s}}`, review.Request.UID, answer) // the server may have gone
	}))
	defer s.Close()
	hook := func(path string) string {
		ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
		return `{metadata: {name: hook}, webhooks: [{name: a.example.test, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "` + s.URL + path + `", caBundle: ` + ca + `}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}]}`
	}
	cl := cluster.Start(t, cluster.Config{})
	c, ctx := clients(t, cl), t.Context()
	ar := c.AdmissionregistrationV1()

	if _, err := ar.MutatingWebhookConfigurations().Create(ctx, fromYAML[admissionregistrationv1.MutatingWebhookConfiguration](t, hook("/mutate")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := inForce(t, c, webPod("web:1"), func(p *corev1.Pod, err error) bool { return err != nil || p.Labels["hooked"] != "" })
	if err != nil || got.Labels["hooked"] != "yes" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ar.ValidatingWebhookConfigurations().Create(ctx, fromYAML[admissionregistrationv1.ValidatingWebhookConfiguration](t, hook("/validate")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = inForce(t, c, webPod("web:1"), func(_ *corev1.Pod, err error) bool { return err != nil })
	if want := `admission webhook "a.example.test" denied the request: not today`; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	s.Close()
	_, err = inForce(t, c, webPod("web:1"), func(_ *corev1.Pod, err error) bool { return strings.Contains(err.Error(), "connect") })
	if want := `Internal error occurred: failed calling webhook "a.example.test": failed to call webhook: Post "` + s.URL + `/mutate?timeout=10s": dial tcp`; !apierrors.IsInternalError(err) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := ar.MutatingWebhookConfigurations().Delete(ctx, "hook", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the cluster is locked: %v", err)
	}
	if err := ar.ValidatingWebhookConfigurations().Delete(ctx, "hook", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the cluster is locked: %v", err)
	}
	if _, err := inForce(t, c, webPod("web:1"), func(_ *corev1.Pod, err error) bool { return err == nil }); err != nil {
		t.Error(err)
	}
}
