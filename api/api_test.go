package api_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/api"
)

func TestDecodeStrict(t *testing.T) {
	pod := &corev1.Pod{}
	_, err := api.Decode([]byte(`{"kind":"Pod","apiVersion":"v1","spec":{"foo":1,"nodeName":"a","nodeName":"b"}}`), api.MediaJSON, pod, api.Strict)
	want := `Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo", duplicate field "spec.nodeName"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSetRevisionAndExtract(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name, pod.ResourceVersion = "a", "9"
	pod.Labels = map[string]string{"b": "1", "a": "2"}
	pod.Spec.NodeName = "n"
	data, err := api.EncodeStored(pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(string(data))
	t.Log(string(api.SetRevision(data, 77)))
	t.Log(api.ByType(pod).Extract(data))
}
