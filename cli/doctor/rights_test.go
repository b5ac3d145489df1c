package doctor

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFindingsOfRights(t *testing.T) {
	lose := func(rights Reading[[]CheckedRight], names ...string) {
		for i, right := range rights.Value {
			rights.Value[i].Granted = !slices.Contains(names, right.String())
		}
	}
	requireFindings(t, map[string]breakage{
		"you may not see everything": {
			func(s *Installation) { lose(s.CallerRights, "list nodes") },
			[]string{"your-rights: unknown: : you may not list nodes in the whole cluster"},
		},
		"you may not change everything, which is no fault": {func(s *Installation) {
			lose(s.CallerRights, "patch nodes", "delete configmaps in namespace nodekeep-system")
		}, nil},
	})
	seen := healthy(t)
	lose(seen.CallerRights, "list nodes")
	assert.Contains(t, resultOf(t, RunChecks(seen, nil), "your-rights").Findings[0].Commands, "kubectl create clusterrolebinding nodekeep-viewer-jane --clusterrole=nodekeep-viewer --user=jane")
	seen = healthy(t)
	lose(seen.CallerRights, "patch nodes")
	assert.Equal(t, "jane may read Nodes and records, and not patch nodes", resultOf(t, RunChecks(seen, nil), "your-rights").Title)
}
