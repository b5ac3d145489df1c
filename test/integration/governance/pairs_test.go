package governance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

var (
	kinds    = []string{"required", "value", "pattern", "requires", "reserved", "immutable", "owners"}
	clients  = []string{"operator", "admin", "kubelet", "cloud controller", "nodekeep"}
	requests = []string{"nodes patch", "nodes apply", "nodes update", "nodes create", "nodes/status patch", "nodes/status apply", "nodes/status update"}
	outcomes = []string{"denied", "warned", "audited", "allowed"}
)

// noRight is why nodekeep makes few kinds of request. Its verify controller may patch nodes/status, but the admission policy nodekeep-verify
// denies every label there.
const noRight = "RBAC refuses this request of nodekeep"

// impossible are the pairs that cannot have a row, with the reason.
var impossible = map[[2]string]string{
	{"nodekeep", "nodes update"}:        noRight,
	{"nodekeep", "nodes create"}:        noRight,
	{"nodekeep", "nodes/status patch"}:  noRight,
	{"nodekeep", "nodes/status apply"}:  noRight,
	{"nodekeep", "nodes/status update"}: noRight,
	{"immutable", "nodes create"}:       "a new Node has no label that a CREATE could change",
}

// request names the resource and the verb of a row.
func (a attempted) request() string { return a.resource + " " + a.verb }

// identity returns the client of a row. The owner is an operator that owns a key.
func (a attempted) identity() string {
	if a.by == "owner" {
		return "operator"
	}
	return a.by
}

func TestEveryPairOfRuleClientAndRequestHasARowInTheTable(t *testing.T) {
	pairs, seen := map[[2]string]bool{}, map[string]bool{}
	for _, row := range table(t) {
		require.Contains(t, kinds, row.kind)
		require.Contains(t, clients, row.identity())
		require.Contains(t, requests, row.request())
		require.Contains(t, outcomes, row.outcome)
		pairs[[2]string{row.kind, row.identity()}] = true
		pairs[[2]string{row.identity(), row.request()}] = true
		pairs[[2]string{row.kind, row.request()}] = true
		seen[row.outcome] = true
	}
	for _, outcome := range outcomes {
		assert.True(t, seen[outcome], "the table has no row with the outcome %s", outcome)
	}
	for _, lists := range [][2][]string{{kinds, clients}, {clients, requests}, {kinds, requests}} {
		for _, first := range lists[0] {
			for _, second := range lists[1] {
				pair := [2]string{first, second}
				_, excluded := impossible[pair]
				assert.NotEqual(t, excluded, pairs[pair], "%s and %s: the table has a row, or the test names a reason", first, second)
			}
		}
	}
}

func TestRBACRefusesTheRequestsOfNodekeepThatTheTableLeavesOut(t *testing.T) {
	for pair, reason := range impossible {
		if reason != noRight {
			continue
		}
		path, verb, _ := strings.Cut(pair[1], " ")
		resource, subresource, _ := strings.Cut(path, "/")
		if verb == "apply" { // an existing Node needs the right to patch only
			verb = "patch"
		}
		for _, account := range []string{"nodekeep-capture", "nodekeep-webhook"} {
			review, err := nodekeep.Admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               "system:serviceaccount:" + harness.Namespace + ":" + account,
					Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + harness.Namespace, "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: resource, Subresource: subresource, Verb: verb, Name: "probe"},
				},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			assert.False(t, review.Status.Allowed, "%s may %s %s", account, verb, path)
		}
	}
}
