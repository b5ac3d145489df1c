package doctor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
)

func TestWhatAnotherComponentSetsTooIsANoteAndNoFinding(t *testing.T) {
	talos := map[string]string{"talos.dev/owned-labels": `["rack", "not-there", "kubernetes.io/os"]`, "talos.dev/owned-taints": `["tenant"]`}
	capi := map[string]string{"cluster.x-k8s.io/taints-from-machine": "tenant=blue:NoExecute"}
	seen := healthy(t)
	see := func(name string, annotations, items map[string]string) {
		seen.Nodes.Value.AddClaims(name, policy.Claims(annotations), items, policy.Default())
	}
	see("talos-1", talos, map[string]string{"rack": "7", "tenant:NoExecute": "blue", "tenant:NoSchedule": "", "kubernetes.io/os": "linux"})
	see("talos-2", talos, map[string]string{"other": "7"})
	for i := range 12 {
		see(fmt.Sprintf("capi-%d", i), capi, map[string]string{"tenant:NoExecute": "blue"})
	}
	assert.Equal(t, []string{
		"note: Cluster API says in cluster.x-k8s.io/taints-from-machine of capi-0, capi-1, capi-2, capi-3, capi-4, capi-5, capi-6, capi-7, capi-8, capi-9 and 2 more Nodes that it sets tenant:NoExecute; nodekeep restores that all the same",
		"note: Talos says in talos.dev/owned-labels of talos-1 that it sets rack; nodekeep restores that all the same",
		"note: Talos says in talos.dev/owned-taints of talos-1 that it sets tenant:NoExecute, tenant:NoSchedule; nodekeep restores that all the same",
	}, notes(t, seen))
}
