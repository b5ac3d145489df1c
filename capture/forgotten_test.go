package capture

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// What stands between capture and the API server may answer 404 for reasons of its own.
func TestA404OfAProxyEndsNoNode(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		gone   bool
	}{
		"the API server has no such Node": {apierrors.NewNotFound(corev1.Resource("nodes"), "n1"), true},
		"a proxy has no such page": {
			apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource("nodes"), "n1", "404 page not found", 0, true), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", remembered("u1", 9, labels{"rack": "r1"}))
			r := w.leader(func(o *Options) {
				o.Client.(*fake.Clientset).PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.answer })
			})
			if failed := r.works(); c.gone {
				require.Empty(t, failed)
			}
			assert.Equal(t, c.gone, !w.record().DeletedAt.IsZero())
		})
	}
}
