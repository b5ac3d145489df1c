package attack

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

var update = flag.Bool("update", false, "write the tables of docs/security.md and testdata/rights.md")

// account is a ServiceAccount of the manifests.
type account struct{ column, namespace, name string }

// accounts returns all of them, in the order of the table.
func accounts() []account {
	return []account{
		{"webhook", harness.Namespace, "nodekeep-webhook"}, {"capture", harness.Namespace, "nodekeep-capture"}, {"verify", harness.Namespace, "nodekeep-verify"},
		{"check", verify.Namespace, verify.Account}, {"uninstall", harness.Namespace, "nodekeep-uninstall"},
	}
}

func TestAThiefOfATokenCanDoWhatTheTableSays(t *testing.T) {
	prepared(t)
	table := strings.Builder{}
	table.WriteString("| With the token of nodekeep's account for ... a thief can |")
	for _, item := range accounts() {
		table.WriteString(" " + item.column + " |")
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(accounts())) + "\n")
	played := map[string][]right{}
	for _, deed := range deeds() {
		table.WriteString("| " + deed.title + " |")
		for _, item := range accounts() {
			outcome := play(t, deed, item)
			switch outcome {
			case no:
				table.WriteString(" no |")
			case yes:
				table.WriteString(" **yes** |")
			default:
				table.WriteString(" policy `" + outcome + "` |")
			}
			if outcome != no {
				for _, request := range deed.requests {
					played[item.name] = append(played[item.name], request.right())
					if request.user != "" {
						played[item.name] = append(played[item.name], right{"impersonate:arbitrary-node", "authentication.k8s.io", "nodes", "", selfTest}, right{"impersonate-on:arbitrary-node:create", "", "nodes", "", ""})
					}
				}
			}
		}
		table.WriteString("\n")
	}
	t.Log("\n" + table.String())
	for _, item := range accounts() {
		for _, granted := range rightsOf(t, item) {
			assert.True(t, slices.ContainsFunc(played[item.name], granted.covers), "%s may %+v, and no line of the table says what a thief can do with that", item.name, granted)
		}
	}
	documented(t, "test/attack/testdata/rights.md", table.String())
}

// prepared makes what the deeds are about, and waits until the API server goes by the admission policies. It follows them a moment after they are
// written.
func prepared(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fixtures.json")
	require.NoError(t, os.WriteFile(file, harness.MustJSON(t, object{"apiVersion": "v1", "kind": "List", "items": fixtures()}), 0o600))
	nodekeep.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "-f", file)
	nodekeep.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", claims(t))
	verifier := configOf(t, account{"", harness.Namespace, "nodekeep-verify"})
	for _, creation := range []request{post(checks+"/pods", pod(verify.Namespace, "check")), post(checks+"/configmaps", named("v1", "ConfigMap", verify.LedgerMap))} {
		creation.stored = true
		if _, err := creation.run(t.Context(), verifier); err != nil {
			require.ErrorContains(t, err, "AlreadyExists", "a test before has created it")
		}
	}
	untilConfined(t)
}

// claims returns a file with the NodeClaims alone: their status is a subresource.
func claims(t *testing.T) string {
	t.Helper()
	var all []any
	for _, o := range fixtures() {
		if o.(object)["kind"] == "NodeClaim" {
			all = append(all, o)
		}
	}
	file := filepath.Join(t.TempDir(), "claims.json")
	require.NoError(t, os.WriteFile(file, harness.MustJSON(t, object{"apiVersion": "v1", "kind": "List", "items": all}), 0o600))
	return file
}

func untilConfined(t *testing.T) {
	t.Helper()
	for _, probe := range []struct {
		subject string
		request request
	}{
		{"nodekeep-verify", patch(nodes+"/"+busy, object{"metadata": object{"labels": object{"a": "b"}}})},
		{"nodekeep-verify", remove(nodes + "/" + busy)[0]},
		{"nodekeep-capture", patch(release+"/configmaps/nodekeep-gate", configMap)},
	} {
		config := configOf(t, account{"", harness.Namespace, probe.subject})
		require.Eventually(t, func() bool {
			outcome, err := probe.request.run(t.Context(), config)
			return err == nil && outcome != yes
		}, harness.Settles, 50*time.Millisecond, "the API server must go by the policies")
	}
	require.Eventually(t, func() bool {
		outcome, err := requestsAs(selfTest, []string{"system:nodes"}, lease(selfTest))[0].run(t.Context(), nodekeep.Cluster.Admin())
		return err == nil && outcome == selfTest
	}, harness.Settles, 50*time.Millisecond, "the API server must go by the policies")
}

func configOf(t *testing.T, item account) *rest.Config {
	t.Helper()
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), item.namespace, item.name)
	require.NoError(t, err)
	return config
}

// play returns the outcome of a deed with the token of an account.
func play(t *testing.T, deed deed, item account) string {
	t.Helper()
	config, outcomes := configOf(t, item), []string{}
	for _, request := range deed.requests {
		outcome, err := request.run(t.Context(), config)
		require.NoError(t, err, "%s, as %s", deed.title, item.name)
		if !slices.Contains(outcomes, outcome) {
			outcomes = append(outcomes, outcome)
		}
	}
	assert.Len(t, outcomes, 1, "%s, as %s: its requests must have one outcome", deed.title, item.name)
	return outcomes[0]
}

// covers reports whether what was played uses a granted right. Who may list may watch, and nothing follows from it in addition.
func (granted right) covers(played right) bool {
	verb := granted.verb
	if verb == "watch" {
		verb = "list"
	}
	return verb == played.verb && granted.group == played.group && granted.resource == played.resource &&
		(granted.namespace == "" || granted.namespace == played.namespace) && (granted.name == "" || granted.name == played.name)
}

// rightsOf returns all rights that the manifests grant to an account, as the API server has them.
func rightsOf(t *testing.T, item account) (rights []right) {
	t.Helper()
	subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: item.namespace, Name: item.name}
	clusterWide, err := nodekeep.Admin.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, binding := range clusterWide.Items {
		if slices.Contains(binding.Subjects, subject) {
			role, err := nodekeep.Admin.RbacV1().ClusterRoles().Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})
			require.NoError(t, err)
			rights = append(rights, expand(role.Rules, "")...)
		}
	}
	recent, err := nodekeep.Admin.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, binding := range recent.Items {
		if slices.Contains(binding.Subjects, subject) {
			require.Equal(t, "Role", binding.RoleRef.Kind, "no account is bound to a ClusterRole in a namespace")
			role, err := nodekeep.Admin.RbacV1().Roles(binding.Namespace).Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})
			require.NoError(t, err)
			rights = append(rights, expand(role.Rules, binding.Namespace)...)
		}
	}
	return slices.DeleteFunc(rights, func(r right) bool { return r.group == "nodekeep.dev" && r.resource == "gates" }) // the gate's switch: no such resource exists
}

func expand(rules []rbacv1.PolicyRule, namespace string) (all []right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						all = append(all, right{verb, group, resource, namespace, name})
					}
				}
			}
		}
	}
	return all
}

// documented asserts that a page has the table.
func documented(t *testing.T, page, table string) {
	t.Helper()
	path := filepath.Join(harness.Root(), page)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	first, _, _ := strings.Cut(table, "\n")
	text := string(content)
	begin := strings.Index(text, first[:30])
	require.GreaterOrEqual(t, begin, 0, "%s has no table that begins with %q", page, first[:30])
	length := strings.Index(text[begin:], "\n\n")
	require.GreaterOrEqual(t, length, 0)
	value := text[begin:begin+length] + "\n"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(text, value, table, 1)), 0o600))
		return
	}
	assert.Equal(t, table, value, "%s: %s", page, fmt.Sprintf("go test ./test/attack -run %s -args -update writes it", t.Name()))
}
