package defaulting

import corev1 "k8s.io/api/core/v1"

func volume(v *corev1.VolumeSource) {
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	switch {
	case v.Secret != nil:
		fillPtr(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		fillPtr(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		fillPtr(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		downward(v.DownwardAPI.Items)
	case v.Projected != nil:
		fillPtr(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range v.Projected.Sources {
			projection(&v.Projected.Sources[i])
		}
	case v.HostPath != nil:
		fillPtr(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Image != nil:
		fill(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		fillPtr(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case v.ISCSI != nil:
		fill(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		fill(&v.RBD.RBDPool, "rbd")
		fill(&v.RBD.RadosUser, "admin")
		fill(&v.RBD.Keyring, "/etc/ceph/keyring")
	case v.AzureDisk != nil:
		fillPtr(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		fillPtr(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		fillPtr(&v.AzureDisk.FSType, "ext4")
		fillPtr(&v.AzureDisk.ReadOnly, false)
	case v.ScaleIO != nil:
		fill(&v.ScaleIO.StorageMode, "ThinProvisioned")
		fill(&v.ScaleIO.FSType, "xfs")
	}
}

func projection(p *corev1.VolumeProjection) {
	if p.ServiceAccountToken != nil {
		fillPtr(&p.ServiceAccountToken.ExpirationSeconds, 60*60)
	}
	if p.DownwardAPI != nil {
		downward(p.DownwardAPI.Items)
	}
	if p.PodCertificate != nil {
		fillPtr(&p.PodCertificate.MaxExpirationSeconds, 24*60*60)
	}
}

func downward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if ref := items[i].FieldRef; ref != nil {
			fill(&ref.APIVersion, "v1")
		}
	}
}
