package validation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func affinity(f *faults, a *corev1.Affinity, path *field.Path) {
	if a == nil {
		return
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if n := a.NodeAffinity; n != nil {
		p := path.Child("nodeAffinity")
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			terms := p.Child(required, "nodeSelectorTerms")
			if len(r.NodeSelectorTerms) == 0 {
				f.add(field.Required(terms, "must have at least one node selector term"))
			}
			for i := range r.NodeSelectorTerms {
				nodeTerm(f, &r.NodeSelectorTerms[i], true, terms.Index(i))
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t, tp := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], p.Child(preferred).Index(i)
			weight(f, t.Weight, tp)
			nodeTerm(f, &t.Preference, false, tp.Child("preference"))
		}
	}
	pods := func(need []corev1.PodAffinityTerm, want []corev1.WeightedPodAffinityTerm, p *field.Path) {
		for i := range need {
			podTerm(f, &need[i], p.Child(required).Index(i))
		}
		for i := range want {
			weight(f, want[i].Weight, p.Child(preferred).Index(i))
			podTerm(f, &want[i].PodAffinityTerm, p.Child(preferred).Index(i).Child("podAffinityTerm"))
		}
	}
	if t := a.PodAffinity; t != nil {
		pods(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if t := a.PodAntiAffinity; t != nil {
		pods(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

func weight(f *faults, w int32, path *field.Path) {
	if w < 1 || w > 100 {
		f.invalid(path.Child("weight"), w, "must be in the range 1-100")
	}
}

// nodeTerm checks a term; strictly, its values must be possible values of labels.
func nodeTerm(f *faults, t *corev1.NodeSelectorTerm, strict bool, path *field.Path) {
	for i := range t.MatchExpressions {
		r, p := &t.MatchExpressions[i], path.Child("matchExpressions").Index(i)
		values := p.Child("values")
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				f.add(field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				f.add(field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				f.add(field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
			}
		default:
			f.invalid(p.Child("operator"), r.Operator, "not a valid selector operator")
		}
		f.add(metav1validation.ValidateLabelName(r.Key, p.Child("key"))...)
		for j, v := range r.Values {
			if strict {
				f.invalid(values.Index(j), v, validation.IsValidLabelValue(v)...)
			}
		}
	}
	for i := range t.MatchFields {
		nodeField(f, &t.MatchFields[i], path.Child("matchFields").Index(i))
	}
}

// nodeField checks a requirement on a field of nodes, of which there is one.
func nodeField(f *faults, r *corev1.NodeSelectorRequirement, p *field.Path) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			f.add(field.Required(p.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		f.invalid(p.Child("operator"), r.Operator, "not a valid selector operator")
	}
	if r.Key != "metadata.name" {
		f.invalid(p.Child("key"), r.Key, "not a valid field selector key")
		return
	}
	for j, v := range r.Values {
		f.invalid(p.Child("values").Index(j), v, subdomain(v)...)
	}
}

func podTerm(f *faults, t *corev1.PodAffinityTerm, path *field.Path) {
	selector(f, t.LabelSelector, path.Child("labelSelector"))
	selector(f, t.NamespaceSelector, path.Child("namespaceSelector"))
	for _, name := range t.Namespaces {
		f.invalid(path.Child("namespace"), name, label(name)...)
	}
	for _, keys := range []struct {
		name string
		list []string
	}{{"matchLabelKeys", t.MatchLabelKeys}, {"mismatchLabelKeys", t.MismatchLabelKeys}} {
		p := path.Child(keys.name)
		if len(keys.list) > 0 && t.LabelSelector == nil {
			f.add(field.Forbidden(p, "must not be specified when labelSelector is not set"))
			continue
		}
		for i, key := range keys.list {
			f.add(metav1validation.ValidateLabelName(key, p.Index(i))...)
		}
	}
	for i, key := range t.MatchLabelKeys {
		if slices.Contains(t.MismatchLabelKeys, key) {
			f.invalid(path.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
	if t.TopologyKey == "" {
		f.add(field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	f.add(metav1validation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

func tolerations(f *faults, list []corev1.Toleration, path *field.Path) {
	for i, t := range list {
		p := path.Index(i)
		op := p.Child("operator")
		if t.Key != "" {
			f.add(metav1validation.ValidateLabelName(t.Key, p.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			f.invalid(op, t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			f.invalid(p.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
				f.invalid(op, t.Value, strings.Join(msgs, ";"))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				f.invalid(op, t.Value, "value must be empty when `operator` is 'Exists'")
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt:
			if n, err := strconv.ParseInt(t.Value, 10, 64); err != nil || strconv.FormatInt(n, 10) != t.Value {
				f.invalid(p.Child("value"), t.Value, "value must be a valid integer when `operator` is 'Lt' or 'Gt'")
			}
		default:
			f.add(field.NotSupported(op, t.Operator, []corev1.TolerationOperator{
				corev1.TolerationOpEqual, corev1.TolerationOpExists,
			}))
		}
		if t.Effect != "" {
			taintEffect(f, t.Effect, p.Child("effect"))
		}
	}
}

func topologySpread(f *faults, list []corev1.TopologySpreadConstraint, path *field.Path) {
	for i := range list {
		c, p := &list[i], path.Index(i)
		if c.MaxSkew <= 0 {
			f.invalid(p.Child("maxSkew"), c.MaxSkew, "must be greater than zero")
		}
		if c.TopologyKey == "" {
			f.add(field.Required(p.Child("topologyKey"), "can not be empty"))
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			f.add(field.NotSupported(p.Child("whenUnsatisfiable"), c.WhenUnsatisfiable,
				[]corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}))
		}
		if slices.ContainsFunc(list[i+1:], func(o corev1.TopologySpreadConstraint) bool {
			return o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			f.add(field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		if d := c.MinDomains; d != nil {
			if *d <= 0 {
				f.invalid(p.Child("minDomains"), *d, "must be greater than zero")
			}
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				f.invalid(p.Child("minDomains"), *d, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s",
					corev1.DoNotSchedule, c.WhenUnsatisfiable))
			}
		}
		oneOfPtr(f, p.Child("nodeAffinityPolicy"), c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		oneOfPtr(f, p.Child("nodeTaintsPolicy"), c.NodeTaintsPolicy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		selector(f, c.LabelSelector, p.Child("labelSelector"))
		spreadKeys(f, c, p.Child("matchLabelKeys"))
	}
}

// spreadKeys checks the keys whose values spread the pods of each apart.
func spreadKeys(f *faults, c *corev1.TopologySpreadConstraint, path *field.Path) {
	if len(c.MatchLabelKeys) > 0 && c.LabelSelector == nil {
		f.add(field.Forbidden(path, "must not be specified when labelSelector is not set"))
	}
	for i, key := range c.MatchLabelKeys {
		f.add(metav1validation.ValidateLabelName(key, path.Index(i))...)
		if c.LabelSelector == nil {
			continue
		}
		_, label := c.LabelSelector.MatchLabels[key]
		if label || slices.ContainsFunc(c.LabelSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key }) {
			f.invalid(path.Index(i), key, "exists in both matchLabelKeys and labelSelector")
		}
	}
}
