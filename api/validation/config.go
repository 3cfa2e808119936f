package validation

import (
	"encoding/json"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// whenImmutable is the text for changes of what was declared immutable.
const whenImmutable = "field is immutable when `immutable` is set"

func configMap(f *faults, cm *corev1.ConfigMap) {
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	size := 0
	for _, key := range sortedKeys(cm.Data) {
		f.invalid(data.Key(key), key, validation.IsConfigMapKey(key)...)
		if _, ok := cm.BinaryData[key]; ok {
			f.invalid(data.Key(key), key, "duplicate of key present in binaryData")
		}
		size += len(cm.Data[key])
	}
	for _, key := range sortedKeys(cm.BinaryData) {
		f.invalid(binary.Key(key), key, validation.IsConfigMapKey(key)...)
		size += len(cm.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		f.add(field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
}

func configMapUpdate(f *faults, cm, old *corev1.ConfigMap) {
	if old.Immutable == nil || !*old.Immutable {
		return
	}
	frozen(f, "immutable", cm.Immutable != nil && *cm.Immutable)
	frozen(f, "data", maps.Equal(cm.Data, old.Data))
	frozen(f, "binaryData", equality.Semantic.DeepEqual(cm.BinaryData, old.BinaryData))
}

func frozen(f *faults, name string, same bool) {
	if !same {
		f.add(field.Forbidden(field.NewPath(name), whenImmutable))
	}
}

func secret(f *faults, s *corev1.Secret) {
	data := field.NewPath("data")
	size := 0
	for _, key := range sortedKeys(s.Data) {
		f.invalid(data.Key(key), key, validation.IsConfigMapKey(key)...)
		size += len(s.Data[key])
	}
	if size > corev1.MaxSecretSize {
		f.add(field.TooLong(data, "", corev1.MaxSecretSize))
	}
	needKey := func(key string) bool {
		_, ok := s.Data[key]
		if !ok {
			f.required(data.Key(key))
		}
		return ok
	}
	needJSON := func(key string) {
		if !needKey(key) {
			return
		}
		var v map[string]any
		if err := json.Unmarshal(s.Data[key], &v); err != nil {
			f.invalid(data.Key(key), "<secret contents redacted>", err.Error())
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			f.required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey))
		}
	case corev1.SecretTypeDockercfg:
		needJSON(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		needJSON(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			f.required(data.Key(corev1.BasicAuthUsernameKey))
			f.required(data.Key(corev1.BasicAuthPasswordKey))
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			f.required(data.Key(corev1.SSHAuthPrivateKey))
		}
	case corev1.SecretTypeTLS:
		needKey(corev1.TLSCertKey)
		needKey(corev1.TLSPrivateKeyKey)
	default: // anything may be in it
	}
}

func secretUpdate(f *faults, s, old *corev1.Secret) {
	immutable(f, field.NewPath("type"), s.Type, old.Type)
	if old.Immutable == nil || !*old.Immutable {
		return
	}
	frozen(f, "immutable", s.Immutable != nil && *s.Immutable)
	frozen(f, "data", equality.Semantic.DeepEqual(s.Data, old.Data))
}

func tokenRequest(f *faults, spec *authenticationv1.TokenRequestSpec, path *field.Path) {
	if spec.ExpirationSeconds != nil {
		expiration(f, *spec.ExpirationSeconds, path.Child("expirationSeconds"))
	}
}

// expiration checks how long a token is to live.
func expiration(f *faults, seconds int64, path *field.Path) {
	if seconds < 10*60 {
		f.invalid(path, seconds, "may not specify a duration less than 10 minutes")
	}
	if seconds > 1<<32 {
		f.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")
	}
}
