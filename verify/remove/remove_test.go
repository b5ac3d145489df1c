package remove

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

// An attempt that is made again for an object that has not changed would be refused again, and no operator would learn why.
func TestOnlyARefusalBecauseTheObjectHasChangedIsTriedAgain(t *testing.T) {
	machines := schema.GroupVersionResource{Group: clusterGroup, Version: "v1beta2", Resource: "machines"}
	invalid := func(path ...string) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: clusterGroup, Kind: "Machine"}, "m", field.ErrorList{
			field.Invalid(field.NewPath(path[0], path[1:]...), "x", "field is immutable"),
		})
	}
	for name, c := range map[string]struct {
		refusal error
		changed bool
	}{
		"a newer state":                            {apierrors.NewConflict(machines.GroupResource(), "m", nil), true},
		"another object of its name":               {invalid("metadata", "uid"), true},
		"another rule of the API server denies it": {invalid("metadata", "annotations"), false},
		"no rights":                                {apierrors.NewForbidden(machines.GroupResource(), "m", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			objects.PrependReactor("patch", "machines", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.refusal })
			target := Target{Kind: verify.RemoveMachine, Node: "n1", Namespace: "default", Name: "m", uid: "u", version: "1", resource: machines}
			err := New(fake.NewClientset(), objects).Remove(t.Context(), target)
			require.Error(t, err)
			assert.Equal(t, c.changed, errors.Is(err, ErrChanged))
			if !c.changed {
				assert.ErrorContains(t, err, c.refusal.Error(), "an operator learns why")
			}
		})
	}
}
