package validation

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes checks the volumes of a pod and puts them into byName.
func volumes(f *faults, list []corev1.Volume, byName map[string]*corev1.VolumeSource, path *field.Path) {
	for i := range list {
		v, p := &list[i], path.Index(i)
		volumeSource(f, &v.VolumeSource, p)
		f.needed(p.Child("name"), v.Name, validation.IsDNS1123Label)
		if _, ok := byName[v.Name]; ok {
			f.add(field.Duplicate(p.Child("name"), v.Name))
		}
		if v.Name != "" {
			byName[v.Name] = &v.VolumeSource
		}
	}
}

// volumeSource checks that there is exactly one source, and that it is right.
func volumeSource(f *faults, v *corev1.VolumeSource, p *field.Path) {
	n := 0
	// one is called for each kind of source and says whether to check it.
	one := func(name string, set bool) bool {
		if !set {
			return false
		}
		n++
		if n > 1 {
			f.add(field.Forbidden(p.Child(name), "may not specify more than 1 volume type"))
		}
		return n == 1
	}
	need := func(source string, values ...string) { // name, value, name, value
		for i := 0; i < len(values); i += 2 {
			f.needed(p.Child(source, values[i]), values[i+1], nil)
		}
	}
	if one("emptyDir", v.EmptyDir != nil) {
		if l := v.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			f.add(field.Forbidden(p.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
	}
	if one("hostPath", v.HostPath != nil) {
		hostPath(f, v.HostPath, p.Child("hostPath"))
	}
	if one("gitRepo", v.GitRepo != nil) {
		need("gitRepo", "repository", v.GitRepo.Repository)
	}
	if one("gcePersistentDisk", v.GCEPersistentDisk != nil) {
		need("gcePersistentDisk", "pdName", v.GCEPersistentDisk.PDName)
	}
	if one("awsElasticBlockStore", v.AWSElasticBlockStore != nil) {
		need("awsElasticBlockStore", "volumeID", v.AWSElasticBlockStore.VolumeID)
	}
	if one("secret", v.Secret != nil) {
		need("secret", "secretName", v.Secret.SecretName)
		fileMode(f, v.Secret.DefaultMode, p.Child("secret", "defaultMode"))
		keysToPaths(f, v.Secret.Items, p.Child("secret", "items"))
	}
	if one("nfs", v.NFS != nil) {
		need("nfs", "server", v.NFS.Server, "path", v.NFS.Path)
		if v.NFS.Path != "" && !path.IsAbs(v.NFS.Path) {
			f.invalid(p.Child("nfs", "path"), v.NFS.Path, "must be an absolute path")
		}
	}
	if one("iscsi", v.ISCSI != nil) {
		need("iscsi", "targetPortal", v.ISCSI.TargetPortal, "iqn", v.ISCSI.IQN)
	}
	if one("glusterfs", v.Glusterfs != nil) {
		need("glusterfs", "endpoints", v.Glusterfs.EndpointsName, "path", v.Glusterfs.Path)
	}
	if one("flocker", v.Flocker != nil) && v.Flocker.DatasetName == "" && v.Flocker.DatasetUUID == "" {
		f.add(field.Required(p.Child("flocker"), "one of datasetName and datasetUUID is required"))
	}
	if one("persistentVolumeClaim", v.PersistentVolumeClaim != nil) {
		need("persistentVolumeClaim", "claimName", v.PersistentVolumeClaim.ClaimName)
	}
	if one("rbd", v.RBD != nil) {
		need("rbd", "image", v.RBD.RBDImage)
		if len(v.RBD.CephMonitors) == 0 {
			f.required(p.Child("rbd", "monitors"))
		}
	}
	if one("cinder", v.Cinder != nil) {
		need("cinder", "volumeID", v.Cinder.VolumeID)
	}
	if one("cephfs", v.CephFS != nil) && len(v.CephFS.Monitors) == 0 {
		f.required(p.Child("cephfs", "monitors"))
	}
	if one("quobyte", v.Quobyte != nil) {
		need("quobyte", "registry", v.Quobyte.Registry, "volume", v.Quobyte.Volume)
	}
	if one("downwardAPI", v.DownwardAPI != nil) {
		fileMode(f, v.DownwardAPI.DefaultMode, p.Child("downwardAPI", "defaultMode"))
		downward(f, v.DownwardAPI.Items, p.Child("downwardAPI"))
	}
	if one("fc", v.FC != nil) && len(v.FC.TargetWWNs) == 0 && len(v.FC.WWIDs) == 0 {
		f.add(field.Required(p.Child("fc", "targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	}
	if one("flexVolume", v.FlexVolume != nil) {
		need("flexVolume", "driver", v.FlexVolume.Driver)
	}
	if one("configMap", v.ConfigMap != nil) {
		need("configMap", "name", v.ConfigMap.Name)
		fileMode(f, v.ConfigMap.DefaultMode, p.Child("configMap", "defaultMode"))
		keysToPaths(f, v.ConfigMap.Items, p.Child("configMap", "items"))
	}
	if one("azureFile", v.AzureFile != nil) {
		need("azureFile", "secretName", v.AzureFile.SecretName, "shareName", v.AzureFile.ShareName)
	}
	if one("vsphereVolume", v.VsphereVolume != nil) {
		need("vsphereVolume", "volumePath", v.VsphereVolume.VolumePath)
	}
	if one("photonPersistentDisk", v.PhotonPersistentDisk != nil) {
		need("photonPersistentDisk", "pdID", v.PhotonPersistentDisk.PdID)
	}
	if one("portworxVolume", v.PortworxVolume != nil) {
		need("portworxVolume", "volumeID", v.PortworxVolume.VolumeID)
	}
	if one("azureDisk", v.AzureDisk != nil) {
		need("azureDisk", "diskName", v.AzureDisk.DiskName, "diskURI", v.AzureDisk.DataDiskURI)
	}
	if one("storageos", v.StorageOS != nil) {
		need("storageos", "volumeName", v.StorageOS.VolumeName)
	}
	if one("projected", v.Projected != nil) {
		fileMode(f, v.Projected.DefaultMode, p.Child("projected", "defaultMode"))
		projections(f, v.Projected.Sources, p.Child("projected", "sources"))
	}
	if one("scaleIO", v.ScaleIO != nil) {
		need("scaleIO", "gateway", v.ScaleIO.Gateway, "system", v.ScaleIO.System, "volumeName", v.ScaleIO.VolumeName)
	}
	if one("csi", v.CSI != nil) {
		need("csi", "driver", v.CSI.Driver)
	}
	if one("ephemeral", v.Ephemeral != nil) && v.Ephemeral.VolumeClaimTemplate == nil {
		f.required(p.Child("ephemeral", "volumeClaimTemplate"))
	}
	if one("image", v.Image != nil) {
		need("image", "reference", v.Image.Reference)
		oneOf(f, p.Child("image", "pullPolicy"), v.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	}
	if n == 0 {
		f.add(field.Required(p, "must specify a volume type"))
	}
}

func hostPath(f *faults, h *corev1.HostPathVolumeSource, p *field.Path) {
	f.needed(p.Child("path"), h.Path, nil)
	noBackSteps(f, h.Path, p.Child("path"))
	oneOfPtr(f, p.Child("type"), h.Type,
		corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
}

func fileMode(f *faults, mode *int32, p *field.Path) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		f.invalid(p, *mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}

// filePath checks where a file is put below a volume.
func filePath(f *faults, target string, p *field.Path) {
	f.needed(p, target, nil)
	descending(f, target, p)
	if strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../") && target != ".." {
		f.invalid(p, target, "must not start with '..'")
	}
}

func keysToPaths(f *faults, items []corev1.KeyToPath, path *field.Path) {
	for i, item := range items {
		p := path.Index(i)
		f.needed(p.Child("key"), item.Key, nil)
		filePath(f, item.Path, p.Child("path"))
		fileMode(f, item.Mode, p.Child("mode"))
	}
}

// downward checks files about the pod itself; upstream's paths do not say which
// of them is meant.
func downward(f *faults, items []corev1.DownwardAPIVolumeFile, path *field.Path) {
	for _, item := range items {
		filePath(f, item.Path, path.Child("path"))
		switch {
		case item.FieldRef != nil:
			fieldRef(f, item.FieldRef, volumeFields, path.Child("fieldRef"))
			if item.ResourceFieldRef != nil {
				f.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
			}
		case item.ResourceFieldRef != nil:
			resourceFieldRef(f, item.ResourceFieldRef, true, path.Child("resourceFieldRef"))
		default:
			f.add(field.Required(path, "one of fieldRef and resourceFieldRef is required"))
		}
		fileMode(f, item.Mode, path.Child("mode"))
	}
}

func projections(f *faults, list []corev1.VolumeProjection, path *field.Path) {
	taken := sets.New[string]()
	for i := range list {
		s, p := &list[i], path.Index(i)
		n := 0
		one := func(name string, set bool) bool {
			if !set {
				return false
			}
			n++
			if n > 1 {
				f.add(field.Forbidden(p.Child(name), "may not specify more than 1 volume type per source"))
			}
			return n == 1
		}
		file := func(owner, target string) {
			if target == "" {
				return
			}
			if taken.Has(target) {
				f.invalid(path, owner, "conflicting duplicate paths: "+target)
			}
			taken.Insert(target)
		}
		if one("secret", s.Secret != nil) {
			f.needed(p.Child("secret", "name"), s.Secret.Name, nil)
			keysToPaths(f, s.Secret.Items, p.Child("secret", "items"))
			for _, item := range s.Secret.Items {
				file(s.Secret.Name, item.Path)
			}
		}
		if one("configMap", s.ConfigMap != nil) {
			f.needed(p.Child("configMap", "name"), s.ConfigMap.Name, nil)
			keysToPaths(f, s.ConfigMap.Items, p.Child("configMap", "items"))
			for _, item := range s.ConfigMap.Items {
				file(s.ConfigMap.Name, item.Path)
			}
		}
		if one("downwardAPI", s.DownwardAPI != nil) {
			downward(f, s.DownwardAPI.Items, p.Child("downwardAPI"))
			for _, item := range s.DownwardAPI.Items {
				file("downwardAPI", item.Path)
			}
		}
		if one("serviceAccountToken", s.ServiceAccountToken != nil) {
			t := s.ServiceAccountToken
			if t.ExpirationSeconds != nil {
				expiration(f, *t.ExpirationSeconds, p.Child("serviceAccountToken", "expirationSeconds"))
			}
			filePath(f, t.Path, p.Child("serviceAccountToken", "path"))
			file("serviceAccountToken", t.Path)
		}
		if one("clusterTrustBundle", s.ClusterTrustBundle != nil) {
			b := s.ClusterTrustBundle
			if (b.Name == nil) == (b.SignerName == nil) {
				f.add(field.Required(p.Child("clusterTrustBundle"), "either name or signerName must be specified"))
			}
			filePath(f, b.Path, p.Child("clusterTrustBundle", "path"))
			file("clusterTrustBundle", b.Path)
		}
		if one("podCertificate", s.PodCertificate != nil) {
			c := s.PodCertificate
			f.needed(p.Child("podCertificate", "signerName"), c.SignerName, nil)
			f.needed(p.Child("podCertificate", "keyType"), c.KeyType, nil)
			for _, target := range []string{c.CredentialBundlePath, c.KeyPath, c.CertificateChainPath} {
				file("podCertificate", target)
			}
		}
	}
}
