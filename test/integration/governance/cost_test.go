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

// member returns an administrator in so many groups.
func member(t *testing.T, groups int, extra ...string) *kubernetes.Clientset {
	t.Helper()
	config := nodekeep.Cluster.Admin()
	all := append([]string{"system:masters"}, extra...)
	for i := range groups - len(all) {
		all = append(all, fmt.Sprint("group-", i))
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: all}
	made, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return made
}

// labelling returns what the API server makes of a dry run that sets labels of a Node: empty, or the message of the denial.
func labelling(t *testing.T, client *kubernetes.Clientset, node string, labels map[string]string) string {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return ""
	}
	require.ErrorContains(t, err, governance.DenyPolicy)
	return err.Error()
}

// junk returns so many labels that no rule concerns, with the longest keys.
func junk(plural int) map[string]string {
	labels := map[string]string{}
	for i := range plural {
		prefix := strings.Repeat("a123456789.", 22) + fmt.Sprintf("%011d", i)
		labels[prefix+"/"+strings.Repeat("n", 63)] = ""
	}
	return labels
}

// withLabel returns the labels with one more.
func withLabel(labels map[string]string, key string) map[string]string {
	labels[key] = ""
	return labels
}

// untilDenied waits until the API server goes by the policy, and not by that of a test before.
func untilDenied(t *testing.T, node string, labels map[string]string, says string) {
	t.Helper()
	harness.Eventually(t, func() bool { return strings.Contains(labelling(t, member(t, 1), node, labels), says) }, harness.Settles, 50*time.Millisecond)
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
			govern(t, policytest.Manifest("governance:\n  reserved: ["+globs+"]\n"))
			untilDenied(t, node, map[string]string{reserved: ""}, reserved+" is reserved")

			admin := member(t, 1)
			logged := regexp.MustCompile(`at most (\d+) labels`).FindStringSubmatch(labelling(t, admin, node, junk(1_000)))
			require.NotNil(t, logged)
			limit, err := strconv.Atoi(logged[1])
			require.NoError(t, err)
			t.Logf("%d keys can be judged", limit)
			assert.Empty(t, labelling(t, admin, node, junk(limit)), "as many as can be judged")
			assert.Contains(t, labelling(t, admin, node, withLabel(junk(limit-1), reserved)), reserved+" is reserved", "each is judged")
			assert.Contains(t, labelling(t, admin, node, junk(limit+1)), "cannot be judged")
			for _, plural := range []int{limit, 300, 3_000, 5_000} {
				assert.NotEmpty(t, labelling(t, admin, node, withLabel(junk(max(plural, limit)), reserved)), "among %d", plural)
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
	for name, tt := range map[string]struct {
		end             string
		judged, tooMany int // groups of the requester
	}{"names": {"", 340, 360}, "patterns": {"*", 3, 40}} {
		t.Run(name, func(t *testing.T) {
			var keys, owners []string
			change := map[string]string{}
			for i := range 19 {
				owners = append(owners, fmt.Sprintf(`"group:owners-%d%s"`, i, tt.end))
			}
			owners = append(owners, `"group:platform-admins`+tt.end+`"`)
			for i := range 100 {
				keys = append(keys, fmt.Sprintf("  - {key: team-%d, owners: [%s], mode: deny}\n", i, strings.Join(owners, ", ")))
				change[fmt.Sprint("team-", i)] = "a"
			}
			node := "cost-owners-" + name
			nodekeep.Register(t, node)
			govern(t, policytest.Manifest("governance:\n  keys:\n"+strings.Join(keys, "")))
			item := map[string]string{"team-0": "a"}
			untilDenied(t, node, item, "can be changed only by")
			assert.NotEmpty(t, labelling(t, member(t, tt.judged), node, change), "not an owner")
			assert.Empty(t, labelling(t, member(t, tt.judged, "platform-admins"), node, change), "an owner in many groups")
			for _, groups := range []int{tt.tooMany, 3_000, 12_000} {
				assert.NotEmpty(t, labelling(t, member(t, groups), node, change), "in %d groups", groups)
				assert.NotEmpty(t, labelling(t, member(t, groups, "platform-admins"), node, change), "whether it is an owner cannot be judged")
			}
			assert.Empty(t, labelling(t, member(t, 10*tt.tooMany, "platform-admins"), node, item), "fewer labels take fewer comparisons")
		})
	}
}

// The schema of the NodePolicy allows no policy that costs more, but for lists of values, which cost less than patterns.
func TestTheMostExpensivePolicyIsStillJudged(t *testing.T) {
	var keys []string
	change, right := map[string]string{}, map[string]string{}
	pattern := "a{1,63}" + strings.Repeat("(b?|c?)", 35)
	var required, owners []string
	for i := range 20 {
		required = append(required, fmt.Sprint("needed-", i))
		owners = append(owners, fmt.Sprintf(`"group:%s%d"`, strings.Repeat("o", 150), i))
		right[required[i]] = ""
	}
	for i := range 100 {
		key := strings.Repeat("n", 55) + fmt.Sprint(i)
		keys = append(keys, fmt.Sprintf("  - {key: %s, pattern: '%s', requires: [%s], owners: [%s], required: true, immutable: true, mode: deny}\n",
			key, pattern, strings.Join(required, ", "), strings.Join(owners, ", ")))
		change[key], right[key] = strings.Repeat("a", 62)+"d", strings.Repeat("a", 63)
	}
	nodekeep.Register(t, "cost-most")
	govern(t, policytest.Manifest("governance:\n  keys:\n"+strings.Join(keys, "")+"  reserved: [\"*.corp.example/*\"]\n"))
	untilDenied(t, "cost-most", change, "does not match its pattern")
	owner := member(t, 10, strings.Repeat("o", 150)+"0")
	assert.Contains(t, labelling(t, owner, "cost-most", change), "does not match its pattern", "all 100 labels are wrong")
	assert.Contains(t, labelling(t, member(t, 10), "cost-most", right), "other owners")
	assert.Empty(t, labelling(t, owner, "cost-most", right))
	assert.Contains(t, labelling(t, owner, "cost-most", withLabel(right, "a.corp.example/b")), "is reserved")
}
