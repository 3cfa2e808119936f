package framework

import (
	"encoding/binary"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// AppendString appends a string to a signature, with its length before it, so
// that no two lists of strings look alike.
func AppendString(key []byte, s string) []byte {
	key = binary.AppendUvarint(key, uint64(len(s)))
	return append(key, s...)
}

// AppendInt appends a number to a signature.
func AppendInt(key []byte, n int64) []byte { return binary.AppendVarint(key, n) }

// AppendTolerations appends tolerations to a signature.
func AppendTolerations(key []byte, list []corev1.Toleration) []byte {
	key = AppendInt(key, int64(len(list)))
	for i := range list {
		t := &list[i]
		for _, s := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			key = AppendString(key, s)
		}
	}
	return key
}

// AppendSelector appends a node selector to a signature.
func AppendSelector(key []byte, s *corev1.NodeSelector) []byte {
	if s == nil {
		return AppendInt(key, -1)
	}
	key = AppendInt(key, int64(len(s.NodeSelectorTerms)))
	for i := range s.NodeSelectorTerms {
		t := &s.NodeSelectorTerms[i]
		for _, list := range [...][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
			key = AppendInt(key, int64(len(list)))
			for _, r := range list {
				key = AppendString(AppendString(key, r.Key), string(r.Operator))
				key = AppendInt(key, int64(len(r.Values)))
				for _, v := range r.Values {
					key = AppendString(key, v)
				}
			}
		}
	}
	return key
}

// AppendMap appends a map of strings to a signature.
func AppendMap(key []byte, m map[string]string) []byte {
	key = AppendInt(key, int64(len(m)))
	if len(m) == 0 {
		return key
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key = AppendString(AppendString(key, k), m[k])
	}
	return key
}

// AppendResource appends amounts to a signature.
func AppendResource(key []byte, r Resource) []byte {
	for _, n := range [...]int64{r.MilliCPU, r.Memory, r.EphemeralStorage, int64(len(r.Scalar))} {
		key = AppendInt(key, n)
	}
	if len(r.Scalar) == 0 {
		return key
	}
	for _, name := range slices.Sorted(maps.Keys(r.Scalar)) {
		key = AppendInt(AppendString(key, string(name)), r.Scalar[name])
	}
	return key
}
