package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/harness"
)

// Beyond ten managers the API server merges the oldest entries of managedFields into "ancient-changes". What is a kubelet's own stays its own:
// once it does not bring the label any more, the label does not return.
func TestALabelWhoseManagerTheAPIServerHasLostIsWhoseItWasBefore(t *testing.T) {
	const current, operators = "example.com/pool", "example.com/tier"
	for name, register := range map[string]func(t testing.TB, fn func()){
		"with the webhook":    func(_ testing.TB, fn func()) { fn() },
		"without the webhook": nodekeep.WithoutWebhook,
	} {
		t.Run(name, func(t *testing.T) {
			node := "lost-owners-" + strings.Fields(name)[0]
			brings := harness.Registration(node)
			brings.Labels[current] = "k"
			register(t, func() {
				nodekeep.RegisterNode(t, brings)
				nodekeep.WaitRestored(t, node, nil)
			})
			nodekeep.Label(t, node, map[string]string{operators: "gold"})
			nodekeep.WaitRecorded(t, nodekeep.Node(t, node), map[string]string{operators: "gold"})
			for i := range 12 {
				_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, harness.MustJSON(t, map[string]any{
					"metadata": map[string]any{"annotations": map[string]string{fmt.Sprintf("example.com/of-tool-%d", i): "1"}},
				}), metav1.PatchOptions{FieldManager: fmt.Sprintf("tool-%d", i)})
				require.NoError(t, err)
			}
			nodekeep.Label(t, node, map[string]string{"example.com/last": "1"}) // observed once the managers are lost
			lost := nodekeep.Node(t, node)
			for _, key := range []string{current, operators} {
				owners := slices.DeleteFunc(slices.Clone(lost.ManagedFields), func(entry metav1.ManagedFieldsEntry) bool {
					return !strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+key+`"`)
				})
				require.Len(t, owners, 1)
				require.Equal(t, "ancient-changes", owners[0].Manager)
			}
			want := map[string]string{operators: "gold", "example.com/last": "1"}
			nodekeep.WaitRecorded(t, lost, want)

			nodekeep.DeleteNode(t, node)
			nodekeep.WaitDeletionRecorded(t, node)
			returned := nodekeep.Register(t, node)
			assert.NotContains(t, returned.Labels, current, "the kubelet does not bring it any more")
			assert.Equal(t, "gold", returned.Labels[operators])
			nodekeep.WaitRecorded(t, returned, want)
		})
	}
}
