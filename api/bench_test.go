package api_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/api"
)

// The pod is one of a Deployment, running, 2 KiB of JSON.

func benchPod(b *testing.B) (*corev1.Pod, []byte) {
	b.Helper()
	data := testdata(b, "pod.json")
	pod := &corev1.Pod{}
	if _, err := api.Decode(data, api.MediaJSON, pod, api.Strict); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	return pod, data
}

func BenchmarkDecodeStrict(b *testing.B) {
	_, data := benchPod(b)
	for b.Loop() {
		if _, err := api.Decode(data, api.MediaJSON, &corev1.Pod{}, api.Strict); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeStored(b *testing.B) {
	_, data := benchPod(b)
	for b.Loop() {
		if err := api.DecodeStored(data, &corev1.Pod{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeProtobuf(b *testing.B) {
	pod, _ := benchPod(b)
	data, err := api.EncodeProtobuf(pod)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := api.Decode(data, api.MediaProtobuf, &corev1.Pod{}, api.Strict); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeStored(b *testing.B) {
	pod, _ := benchPod(b)
	pod.ResourceVersion = "123"
	for b.Loop() {
		if _, err := api.EncodeStored(pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeProtobuf(b *testing.B) {
	pod, _ := benchPod(b)
	for b.Loop() {
		if _, err := api.EncodeProtobuf(pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExtract(b *testing.B) {
	pod, data := benchPod(b)
	r := api.ByType(pod)
	for b.Loop() {
		if _, _, err := r.Extract(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSetRevision(b *testing.B) {
	_, data := benchPod(b)
	for b.Loop() {
		api.SetRevision(data, 123456)
	}
}
