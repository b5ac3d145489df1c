package governance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// member is an administrator in so many groups.
func member(t *testing.T, groups int, also ...string) *kubernetes.Clientset {
	t.Helper()
	config := nodekeep.Cluster.Admin()
	all := append([]string{"system:masters"}, also...)
	for i := range groups - len(all) {
		all = append(all, fmt.Sprint("group-", i))
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: all}
	made, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return made
}

// labelling is what the API server makes of a dry run that sets labels of a Node: empty, or the message of the denial.
func labelling(t *testing.T, as *kubernetes.Clientset, node string, labels map[string]string) string {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	require.NoError(t, err)
	_, err = as.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return ""
	}
	require.ErrorContains(t, err, governance.DenyPolicy)
	return err.Error()
}

// junk are so many labels that no rule concerns, with the longest keys.
func junk(many int) map[string]string {
	labels := map[string]string{}
	for i := range many {
		prefix := strings.Repeat("a123456789.", 22) + fmt.Sprintf("%011d", i)
		labels[prefix+"/"+strings.Repeat("n", 63)] = ""
	}
	return labels
}

// and is the labels with one more.
func and(labels map[string]string, key string) map[string]string {
	labels[key] = ""
	return labels
}

// untilDenied waits until the API server goes by the policy, and not by that of a test before.
func untilDenied(t *testing.T, node string, labels map[string]string, says string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(labelling(t, member(t, 1), node, labels), says) }, harness.Settles, 50*time.Millisecond)
}

func TestNoReservedKeyPassesAmongSoManyThatTheyCannotBeJudged(t *testing.T) {
	var longest []string
	for i := range 20 {
		longest = append(longest, fmt.Sprintf("%q", strings.Repeat("b.", 120)+fmt.Sprintf("c%02d/*", i)))
	}
	for name, globs := range map[string]string{"few": `"*.corp.example/*"`, "worst": strings.Join(longest, ", ")} {
		t.Run(name, func(t *testing.T) {
			reserved := "team.corp.example/owner"
			if name == "worst" {
				reserved = strings.Repeat("b.", 120) + "c00/owner"
			}
			node := "cost-" + name
			nodekeep.Register(t, node)
			text := rendered(t, policytest.Manifest("governance:\n  reserved: ["+globs+"]\n"))
			applied(t, text)
			untilDenied(t, node, map[string]string{reserved: ""}, reserved+" is reserved")

			most, err := strconv.Atoi(regexp.MustCompile(`at most (\d+) labels`).FindStringSubmatch(text)[1])
			require.NoError(t, err)
			t.Logf("%d keys can be judged", most)
			admin := member(t, 1)
			assert.Empty(t, labelling(t, admin, node, junk(most)), "as many as can be judged")
			assert.Contains(t, labelling(t, admin, node, and(junk(most-1), reserved)), reserved+" is reserved", "each is judged")
			assert.Contains(t, labelling(t, admin, node, junk(most+1)), "cannot be judged")
			for _, many := range []int{most, 300, 3_000} {
				assert.NotEmpty(t, labelling(t, admin, node, and(junk(max(many, most)), reserved)), "among %d", many)
			}
			short := map[string]string{reserved: ""}
			for i := range 60_000 {
				short[fmt.Sprint("k", i)] = ""
			}
			assert.Contains(t, labelling(t, admin, node, short), "cannot be judged", "among more labels than an expression can go through")
		})
	}
}

func TestARequesterInMoreGroupsThanCanBeComparedOwnsNoLabel(t *testing.T) {
	var keys, owners []string
	change := map[string]string{}
	for i := range 19 {
		owners = append(owners, fmt.Sprintf(`"group:owners-%d"`, i))
	}
	owners = append(owners, `"group:platform-admins"`)
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("  - {key: team-%d, owners: [%s], mode: deny}\n", i, strings.Join(owners, ", ")))
		change[fmt.Sprint("team-", i)] = "a"
	}
	nodekeep.Register(t, "cost-owners")
	applied(t, rendered(t, policytest.Manifest("governance:\n  keys:\n"+strings.Join(keys, ""))))
	untilDenied(t, "cost-owners", map[string]string{"team-0": "a"}, "can be changed only by")
	assert.NotEmpty(t, labelling(t, member(t, 390), "cost-owners", change), "not an owner")
	assert.Empty(t, labelling(t, member(t, 390, "platform-admins"), "cost-owners", change), "an owner in many groups")
	for _, groups := range []int{410, 3_000} {
		assert.NotEmpty(t, labelling(t, member(t, groups), "cost-owners", change), "in %d groups", groups)
		assert.NotEmpty(t, labelling(t, member(t, groups, "platform-admins"), "cost-owners", change), "whether it is an owner cannot be judged")
	}
}
