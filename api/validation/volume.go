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
func volumeSource(f *faults, v *corev1.VolumeSource, path *field.Path) {
	const tooMany = "may not specify more than 1 volume type"
	if choose(f, path, tooMany, append(ownSources(f, v), otherSources(f, v)...)...) == 0 {
		f.add(field.Required(path, "must specify a volume type"))
	}
}

// need checks that the values, each behind its name, are not empty.
func need(f *faults, p *field.Path, namesAndValues ...string) {
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		f.needed(p.Child(namesAndValues[i]), namesAndValues[i+1], nil)
	}
}

// ownSources are the sources that a node agent has by itself.
func ownSources(f *faults, v *corev1.VolumeSource) []choice {
	return []choice{
		{"emptyDir", v.EmptyDir != nil, func(p *field.Path) {
			if l := v.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
				f.add(field.Forbidden(p.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
			}
		}},
		{"hostPath", v.HostPath != nil, func(p *field.Path) { hostPath(f, v.HostPath, p) }},
		{"secret", v.Secret != nil, func(p *field.Path) {
			f.needed(p.Child("secretName"), v.Secret.SecretName, nil)
			fileMode(f, v.Secret.DefaultMode, p.Child("defaultMode"))
			keysToPaths(f, v.Secret.Items, p.Child("items"))
		}},
		{"configMap", v.ConfigMap != nil, func(p *field.Path) {
			f.needed(p.Child("name"), v.ConfigMap.Name, nil)
			fileMode(f, v.ConfigMap.DefaultMode, p.Child("defaultMode"))
			keysToPaths(f, v.ConfigMap.Items, p.Child("items"))
		}},
		{"downwardAPI", v.DownwardAPI != nil, func(p *field.Path) {
			fileMode(f, v.DownwardAPI.DefaultMode, p.Child("defaultMode"))
			downward(f, v.DownwardAPI.Items, p)
		}},
		{"projected", v.Projected != nil, func(p *field.Path) {
			fileMode(f, v.Projected.DefaultMode, p.Child("defaultMode"))
			projections(f, v.Projected.Sources, p)
		}},
		{"image", v.Image != nil, func(p *field.Path) {
			f.needed(p.Child("reference"), v.Image.Reference, nil)
			oneOf(f, p.Child("pullPolicy"), v.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
		}},
	}
}

// otherSources are the sources that drivers provide. Little is asked of them.
func otherSources(f *faults, v *corev1.VolumeSource) []choice {
	return []choice{
		{"persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(p *field.Path) {
			f.needed(p.Child("claimName"), v.PersistentVolumeClaim.ClaimName, nil)
		}},
		{"ephemeral", v.Ephemeral != nil, func(p *field.Path) {
			if v.Ephemeral.VolumeClaimTemplate == nil {
				f.required(p.Child("volumeClaimTemplate"))
			}
		}},
		{"csi", v.CSI != nil, func(p *field.Path) { need(f, p, "driver", v.CSI.Driver) }},
		{"nfs", v.NFS != nil, func(p *field.Path) {
			need(f, p, "server", v.NFS.Server, "path", v.NFS.Path)
			if !path.IsAbs(v.NFS.Path) {
				f.invalid(p.Child("path"), v.NFS.Path, "must be an absolute path")
			}
		}},
		{"gitRepo", v.GitRepo != nil, func(p *field.Path) { need(f, p, "repository", v.GitRepo.Repository) }},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil, func(p *field.Path) { need(f, p, "pdName", v.GCEPersistentDisk.PDName) }},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(p *field.Path) { need(f, p, "volumeID", v.AWSElasticBlockStore.VolumeID) }},
		{"iscsi", v.ISCSI != nil, func(p *field.Path) { need(f, p, "targetPortal", v.ISCSI.TargetPortal, "iqn", v.ISCSI.IQN) }},
		{"glusterfs", v.Glusterfs != nil, func(p *field.Path) { need(f, p, "endpoints", v.Glusterfs.EndpointsName, "path", v.Glusterfs.Path) }},
		{"flocker", v.Flocker != nil, func(p *field.Path) {
			if v.Flocker.DatasetName == "" && v.Flocker.DatasetUUID == "" {
				f.add(field.Required(p, "one of datasetName and datasetUUID is required"))
			}
		}},
		{"rbd", v.RBD != nil, func(p *field.Path) {
			need(f, p, "image", v.RBD.RBDImage)
			some(f, v.RBD.CephMonitors, p.Child("monitors"))
		}},
		{"cinder", v.Cinder != nil, func(p *field.Path) { need(f, p, "volumeID", v.Cinder.VolumeID) }},
		{"cephfs", v.CephFS != nil, func(p *field.Path) { some(f, v.CephFS.Monitors, p.Child("monitors")) }},
		{"quobyte", v.Quobyte != nil, func(p *field.Path) { need(f, p, "registry", v.Quobyte.Registry, "volume", v.Quobyte.Volume) }},
		{"fc", v.FC != nil, func(p *field.Path) {
			if len(v.FC.TargetWWNs) == 0 && len(v.FC.WWIDs) == 0 {
				f.add(field.Required(p.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
			}
		}},
		{"flexVolume", v.FlexVolume != nil, func(p *field.Path) { need(f, p, "driver", v.FlexVolume.Driver) }},
		{"azureFile", v.AzureFile != nil, func(p *field.Path) {
			need(f, p, "secretName", v.AzureFile.SecretName, "shareName", v.AzureFile.ShareName)
		}},
		{"vsphereVolume", v.VsphereVolume != nil, func(p *field.Path) { need(f, p, "volumePath", v.VsphereVolume.VolumePath) }},
		{"photonPersistentDisk", v.PhotonPersistentDisk != nil, func(p *field.Path) { need(f, p, "pdID", v.PhotonPersistentDisk.PdID) }},
		{"portworxVolume", v.PortworxVolume != nil, func(p *field.Path) { need(f, p, "volumeID", v.PortworxVolume.VolumeID) }},
		{"azureDisk", v.AzureDisk != nil, func(p *field.Path) { need(f, p, "diskName", v.AzureDisk.DiskName, "diskURI", v.AzureDisk.DataDiskURI) }},
		{"storageos", v.StorageOS != nil, func(p *field.Path) { need(f, p, "volumeName", v.StorageOS.VolumeName) }},
		{"scaleIO", v.ScaleIO != nil, func(p *field.Path) {
			need(f, p, "gateway", v.ScaleIO.Gateway, "system", v.ScaleIO.System, "volumeName", v.ScaleIO.VolumeName)
		}},
	}
}

// some checks that a list is not empty.
func some(f *faults, list []string, p *field.Path) {
	if len(list) == 0 {
		f.required(p)
	}
}

func hostPath(f *faults, h *corev1.HostPathVolumeSource, p *field.Path) {
	if h.Path == "" {
		f.required(p.Child("path"))
		return
	}
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

// A projectedVolume is the directory that the parts of a projected volume share.
type projectedVolume struct {
	path  *field.Path
	taken sets.Set[string]
}

// file checks that only one part makes a file; owner is what upstream shows.
func (v *projectedVolume) file(f *faults, owner, target string) {
	if target != "" && v.taken.Has(target) {
		f.invalid(v.path, owner, "conflicting duplicate paths")
	}
	v.taken.Insert(target)
}

func (v *projectedVolume) keys(f *faults, name string, items []corev1.KeyToPath, p *field.Path) {
	f.needed(p.Child("name"), name, nil)
	keysToPaths(f, items, p.Child("items"))
	for _, item := range items {
		v.file(f, name, item.Path)
	}
}

// projections checks the parts of a projected volume. Upstream's paths do not
// always say which part is meant.
func projections(f *faults, list []corev1.VolumeProjection, path *field.Path) {
	v := &projectedVolume{path: path, taken: sets.New[string]()}
	for i := range list {
		s, p := &list[i], path.Child("sources").Index(i)
		sources := 0
		if s.Secret != nil {
			sources++
			v.keys(f, s.Secret.Name, s.Secret.Items, p.Child("secret"))
		}
		if s.ConfigMap != nil {
			sources++
			v.keys(f, s.ConfigMap.Name, s.ConfigMap.Items, p.Child("configMap"))
		}
		if s.DownwardAPI != nil {
			sources++
			downward(f, s.DownwardAPI.Items, p.Child("downwardAPI"))
			for _, item := range s.DownwardAPI.Items {
				v.file(f, item.Path, item.Path)
			}
		}
		sources += v.credentials(f, s, p)
		if sources > 1 {
			f.add(field.Forbidden(p, "may not specify more than 1 volume type per source"))
		}
	}
}

// credentials checks the parts that the server issues, and returns how many of
// them there are.
func (v *projectedVolume) credentials(f *faults, s *corev1.VolumeProjection, p *field.Path) int {
	sources := 0
	if t := s.ServiceAccountToken; t != nil {
		sources++
		if t.ExpirationSeconds != nil {
			expiration(f, *t.ExpirationSeconds, p.Child("serviceAccountToken", "expirationSeconds"))
		}
		filePath(f, t.Path, v.path.Child("path"))
	}
	if b := s.ClusterTrustBundle; b != nil {
		sources++
		trustBundle(f, b, p.Child("clusterTrustBundle"))
		v.file(f, b.Path, b.Path)
	}
	if c := s.PodCertificate; c != nil {
		sources++
		need(f, p.Child("podCertificate"), "signerName", c.SignerName, "keyType", c.KeyType)
		for _, target := range []string{c.CredentialBundlePath, c.KeyPath, c.CertificateChainPath} {
			v.file(f, target, target)
		}
	}
	return sources
}

func trustBundle(f *faults, b *corev1.ClusterTrustBundleProjection, p *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		f.invalid(p, b, "only one of name and signerName may be used")
	case b.Name != nil && b.LabelSelector != nil:
		f.invalid(p.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified")
	case b.Name == nil && b.SignerName == nil:
		f.add(field.Required(p, "either name or signerName must be specified"))
	}
	selector(f, b.LabelSelector, p.Child("labelSelector"))
	filePath(f, b.Path, p.Child("path"))
}
