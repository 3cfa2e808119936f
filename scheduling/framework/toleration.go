package framework

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Tolerated reports whether one of the tolerations tolerates the taint.
func Tolerated(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], taint) {
			return true
		}
	}
	return false
}

// tolerates matches one toleration: an empty effect or key matches any. Values
// that Lt and Gt cannot read as decimal integers match nothing.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		bound, err1 := strconv.ParseInt(t.Value, 10, 64)
		value, err2 := strconv.ParseInt(taint.Value, 10, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		if t.Operator == corev1.TolerationOpLt {
			return value < bound
		}
		return value > bound
	}
	return false
}
