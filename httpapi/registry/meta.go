package registry

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
)

const (
	// nameAlphabet is what generated names are made of: no vowels, so that no
	// words come out, and nothing that is easily misread.
	nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	nameSuffix   = 5
	nameLength   = 63
	// nameAttempts is how many generated names are tried.
	nameAttempts = 8
)

// generateName returns a name that begins with base.
func generateName(base string) string {
	if len(base) > nameLength-nameSuffix {
		base = base[:nameLength-nameSuffix]
	}
	var suffix [nameSuffix]byte
	for i := range suffix {
		suffix[i] = nameAlphabet[rand.IntN(len(nameAlphabet))] //nolint:gosec // names need to differ, not to be secret
	}
	return base + string(suffix[:])
}

// initMeta sets the metadata that the server alone decides on a new object.
func (r *Resource) initMeta(obj api.Object) {
	obj.SetUID(types.UID(uuid.NewString()))
	obj.SetCreationTimestamp(metav1.Time{Time: r.now().UTC().Truncate(timePrecision)})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	obj.SetManagedFields(nil)
	obj.SetGeneration(0)
	if r.strategy.generation {
		obj.SetGeneration(1)
	}
}

// keepMeta gives the new state of an object the metadata that a client may
// not change.
func keepMeta(obj, old api.Object) {
	obj.SetName(old.GetName())
	obj.SetNamespace(old.GetNamespace())
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink("")
	obj.SetManagedFields(nil)
}

func setRevision(obj api.Object, revision int64) {
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
}

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }
