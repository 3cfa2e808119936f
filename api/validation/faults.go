package validation

import (
	"cmp"
	"maps"
	"slices"

	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// faults gathers what is wrong with an object.
type faults struct{ list field.ErrorList }

func (f *faults) add(errs ...*field.Error) { f.list = append(f.list, errs...) }

// invalid adds one fault for each message.
func (f *faults) invalid(path *field.Path, value any, msgs ...string) {
	for _, msg := range msgs {
		f.add(field.Invalid(path, value, msg))
	}
}

func (f *faults) required(path *field.Path) { f.add(field.Required(path, "")) }

// needed adds a fault if value is empty, and otherwise one for each message of
// check, which may be nil.
func (f *faults) needed(path *field.Path, value string, check func(string) []string) {
	switch {
	case value == "":
		f.required(path)
	case check != nil:
		f.invalid(path, value, check(value)...)
	}
}

// nonNegative adds a fault if value is below 0.
func (f *faults) nonNegative(path *field.Path, value int64) {
	if value < 0 {
		f.invalid(path, value, metavalidation.IsNegativeErrorMsg)
	}
}

// oneOf adds a fault if value is none of the allowed ones.
func oneOf[T ~string](f *faults, path *field.Path, value T, allowed ...T) {
	switch {
	case value == "" && !slices.Contains(allowed, ""):
		f.required(path)
	case !slices.Contains(allowed, value):
		f.add(field.NotSupported(path, value, allowed))
	}
}

// oneOfPtr is oneOf for values that may be left out.
func oneOfPtr[T ~string](f *faults, path *field.Path, value *T, allowed ...T) {
	if value != nil {
		oneOf(f, path, *value, allowed...)
	}
}

// A choice is one of several fields of which one is to be set.
type choice struct {
	name string
	set  bool
	// check checks the field at path; it is called only if the field is set.
	check func(path *field.Path)
}

// choose checks the first choice that is set, refuses the others with the text
// tooMany, and returns how many are set.
func choose(f *faults, path *field.Path, tooMany string, choices ...choice) int {
	n := 0
	for _, c := range choices {
		if !c.set {
			continue
		}
		if n++; n > 1 {
			f.add(field.Forbidden(path.Child(c.name), tooMany))
			continue
		}
		c.check(path.Child(c.name))
	}
	return n
}

// sortedKeys makes the order of faults the same each time.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
