package controlplane

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestUses(t *testing.T) {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ServiceAccountName: "sa",
		ImagePullSecrets:   []corev1.LocalObjectReference{local("pull")},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vol"}}},
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("vol")}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: local("proj")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("proj")}},
			}}}},
		},
		InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("from")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("from")}},
		}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("key")}}},
			{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("key")}}},
		}}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("debug")}}},
		}}},
	}}
	for _, c := range []struct {
		resource, name string
		want           bool
	}{
		{"serviceaccounts", "sa", true},
		{"serviceaccounts", "other", false},
		{"secrets", "pull", true},
		{"secrets", "vol", true},
		{"secrets", "proj", true},
		{"secrets", "from", true},
		{"secrets", "key", true},
		{"secrets", "debug", true},
		{"secrets", "other", false},
		{"configmaps", "vol", true},
		{"configmaps", "proj", true},
		{"configmaps", "from", true},
		{"configmaps", "key", true},
		{"configmaps", "pull", false},
		{"pods", "vol", false},
	} {
		if got := uses(pod, c.resource, c.name); got != c.want {
			t.Errorf("uses(%s %q) = %v, want %v", c.resource, c.name, got, c.want)
		}
	}
}
