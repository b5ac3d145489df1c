package cli

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// Who needs what, by command. TestEveryCommandHasItsRights holds these to the list of commands.
const (
	forViewers   = "nodekeep-viewer"
	forOperators = "nodekeep-operator"
	forAdmins    = "" // no shipped role
	noRights     = "-"
)

// permitted is a command line, and what it takes.
type permitted struct {
	line string
	role string
	code int // where it ends so although all rights are there
}

// permittedCommands returns command lines for the Nodes that arrangeAccess makes.
func permittedCommands(policy string) map[string][]permitted {
	return map[string][]permitted{
		"list": {{"list", forViewers, 0}, {"list --waiting gate", forViewers, 0}, {"list --waiting verification", forViewers, 0}, {"list --waiting quarantine", forViewers, 0}},
		"show": {
			{"show access-live", forViewers, 0}, {"show access-live --history", forViewers, 0}, {"show access-live --diff", forViewers, 0}, {"show access-live --verification", forViewers, 0},
		},
		"explain": {{"explain access-live", forViewers, 0}},
		"report": {
			{"report summary", forViewers, 0}, {"report drift", forViewers, 0}, {"report compliance", forViewers, 0}, {"report cost", forViewers, 0},
			{"report migrations", forViewers, 0}, {"report migrations dedicated=example.com/dedicated", forViewers, 0},
		},
		"check": {{"check " + policy + " --against-cluster", forViewers, 0}},
		"accept": {
			{"accept record access-undecided --machine old --dry-run", forViewers, 0}, {"accept record access-undecided --machine old --yes", forOperators, 0},
			{"accept rules none --dry-run", forViewers, 0}, {"accept rules none", forOperators, 0},
			{"accept corrections --dry-run", forViewers, 0}, {"accept corrections --yes", forOperators, 0},
			{"accept adoption tier --dry-run", forViewers, 3}, {"accept adoption tier --yes", forOperators, 3}, // nor rules
			{"accept migration dedicated=example.com/dedicated --dry-run", forViewers, 3}, {"accept migration dedicated=example.com/dedicated", forOperators, 3}, // nor migrations
		},
		"release":  {{"release access-live --dry-run", forViewers, 0}, {"release access-live --yes", forOperators, 0}},
		"recheck":  {{"recheck access-live --yes", forOperators, 3}}, // nor profiles
		"rollback": {{"rollback access-live --to 0 --dry-run", forViewers, 0}, {"rollback access-live --to 0 --yes", forOperators, 0}},
		"forget": {
			{"forget access-gone dedicated --yes", forOperators, 0}, {"forget access-gone --yes", forOperators, 0},
			{"forget --older-than 720h --dry-run", forViewers, 0}, {"forget --older-than 720h --at-most 1 --yes", forOperators, 0},
		},
		"emergency": {{"emergency --dry-run", forViewers, 0}, {"emergency --end --dry-run", forViewers, 0}, {"emergency --yes", forAdmins, 0}, {"emergency --end --yes", forAdmins, 0}},
		"uninstall": {{"uninstall --yes", forAdmins, 0}},
		"doctor":    {{"doctor", forOperators, 1}}, // no kubelet runs here, and so no replica is available
		"version":   {{"version", noRights, 0}},
	}
}

// arrangeAccess makes what the command lines speak of, for each of them anew. Rules of an earlier test may still be in force.
func arrangeAccess(t *testing.T) {
	t.Helper()
	inForce(t, policy.NoRules)
	if !nodeExists(t, "access-live") {
		register(t, "access-live")
	}
	if labelsOf(t, "access-live")["dedicated"] != "batch" { // each edit is a change of its history, which has room for few
		edit(t, "access-live", map[string]string{"dedicated": "ci"})
		edit(t, "access-live", map[string]string{"dedicated": "batch"})
	}
	nodekeep.MustKubectl(t, "-n", harness.Namespace, "delete", "configmap", "--ignore-not-found", "node.access-gone", "node.access-undecided")
	goneFor(t, "access-gone", 10*year)
	quarantined(t, "access-undecided")
}

func nodeExists(t *testing.T, name string) bool {
	t.Helper()
	return nodekeep.MustKubectl(t, "get", "node", name, "--ignore-not-found", "-o", "name") != ""
}

// bindRole binds a shipped role to a user as docs/operating.md says.
func bindRole(t *testing.T, role, user string) {
	t.Helper()
	granted(t, "create", "clusterrolebinding", role+"-"+user, "--clusterrole="+role, "--user="+user)
	_, _ = nodekeep.Kubectl(t.Context(), "create", "namespace", verify.Namespace) // another test may have made it
	for _, namespace := range []string{harness.Namespace, verify.Namespace} {
		granted(t, "create", "rolebinding", role+"-"+user, "--clusterrole="+role+"-namespaced", "--user="+user, "-n", namespace)
	}
	granted(t, "create", "rolebinding", role+"-"+user, "--clusterrole="+role+"-events", "--user="+user, "-n", "default")
}

// granted has kubectl make something that is deleted at the end.
func granted(t *testing.T, args ...string) {
	t.Helper()
	nodekeep.MustKubectl(t, args...)
	undo(t, args...)
}

// undo deletes at the end what kubectl has made by these arguments.
func undo(t *testing.T, made ...string) {
	t.Helper()
	args := slices.Clone(made[1:3])
	if i := slices.Index(made, "-n"); i > 0 {
		args = append(args, made[i:i+2]...)
	}
	deletedAtEnd(t, args...)
}

// untilAllowed runs a command until the API server follows what was granted.
func untilAllowed(t *testing.T, user, line string) (a answer) {
	t.Helper()
	harness.Eventually(t, func() bool {
		a = run(t, append(strings.Fields(line), "--as="+user)...)
		return !strings.Contains(a.ErrOut, "you may not") && (line != "doctor" || !strings.Contains(a.Out, "you may not"))
	}, settles, 200*time.Millisecond, "%s: %s", line, &a)
	return a
}

func TestEveryCommandHasItsRights(t *testing.T) {
	var all []string
	for path := range helpOfAll(t) {
		command := strings.TrimPrefix(strings.TrimPrefix(path, "nodekeep"), " ")
		switch first, _, _ := strings.Cut(command, " "); first {
		case "", "help", "completion": // of cobra
			continue
		}
		switch command {
		case "capture", "webhook", "verify", "worker", "probe": // the processes, and what asks no cluster
		default:
			all = append(all, command)
		}
	}
	var known []string
	for command := range permittedCommands("policy.yaml") {
		known = append(known, command)
	}
	assert.ElementsMatch(t, all, known)
}

func TestTheShippedRolesAreEnoughForTheirCommands(t *testing.T) {
	bindRole(t, forViewers, "vera")
	bindRole(t, forOperators, "otto")
	users := map[string]string{forViewers: "vera", forOperators: "otto"}
	for command, lines := range permittedCommands(nodekeep.PolicyFile(t)) {
		t.Run(command, func(t *testing.T) {
			for _, c := range lines {
				if c.role == forAdmins || c.role == noRights {
					continue
				}
				arrangeAccess(t)
				a := untilAllowed(t, users[c.role], c.line)
				assert.Equal(t, c.code, a.Code, "%s\n%s%s", c.line, a.Out, a.ErrOut)
				assert.NotContains(t, a.ErrOut, "not known", c.line)
				assert.NotContains(t, a.Out, "get secrets", c.line)
			}
		})
	}
}

// A list that is watched takes one more right.
func TestAViewerMayWatchTheList(t *testing.T) {
	bindRole(t, forViewers, "wanda")
	untilAllowed(t, "wanda", "list")
	command := exec.Command(nodekeep.Binary(), "list", "--watch", "--as=wanda")
	command.Env = nodekeep.Environment("")
	a := interrupted(t, command, func(out string) bool { return strings.Contains(out, "NAME") })
	assert.Equal(t, 130, a.Code, a.ErrOut)
}

// Workloads of all namespaces are for those whom the cluster lets see them: view is enough.
func TestAViewerSeesWhatSelectsNodesAsFarAsHeMay(t *testing.T) {
	bindRole(t, forViewers, "uwe")
	untilAllowed(t, "uwe", "list")
	a := ends(t, 1, "not everything that selects Nodes could be read: Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob, Pod", "report", "usage", "--as=uwe")
	granted(t, "create", "clusterrolebinding", "uwe-views", "--clusterrole=system:aggregate-to-view", "--user=uwe") // no controller-manager makes view of it here
	harness.Eventually(t, func() bool {
		a = run(t, "report", "usage", "--as=uwe")
		return a.Code == 0
	}, settles, 200*time.Millisecond, &a)
}

// A user without rights sees once what a command takes, in full.
func TestTheRightsThatACommandTakesAreNamedAtOnce(t *testing.T) {
	arrangeAccess(t)
	for command, lines := range permittedCommands(nodekeep.PolicyFile(t)) {
		if command == "doctor" { // it shows what may be read, and what may not
			continue
		}
		t.Run(command, func(t *testing.T) {
			for i, c := range lines {
				user := "nobody-" + strings.ReplaceAll(command, " ", "-") + strings.Repeat("x", i)
				if c.role == noRights {
					run(t, strings.Fields(c.line)...).RequireDone(t)
					continue
				}
				head := nodekeep.MustKubectl(t, "get", "node", "access-live", "-o", "jsonpath={.metadata.labels}{.spec.taints}")
				a := run(t, append(strings.Fields(c.line), "--as="+user)...)
				assert.Equal(t, 3, a.Code, "%s\n%s", c.line, a.ErrOut)
				assert.Empty(t, a.Out, c.line)
				assert.Contains(t, a.ErrOut, "you may not ", c.line)
				assert.NotContains(t, a.ErrOut, "the API server says", "%s: nothing was tried", c.line)
				assert.Equal(t, head, nodekeep.MustKubectl(t, "get", "node", "access-live", "-o", "jsonpath={.metadata.labels}{.spec.taints}"))
				if c.role == forAdmins {
					says := "it is for an administrator of the cluster"
					if c.line == "emergency --end --yes" { // two rights, which are granted one by one
						says = "kubectl create role nodekeep-delete-rolebindings-nodekeep-emergency --verb=delete "
					}
					assert.Contains(t, a.ErrOut, says)
					continue
				}
				for _, line := range strings.Split(a.ErrOut, "\n") {
					if grant := strings.TrimSpace(line); strings.HasPrefix(grant, "kubectl create ") {
						assert.Contains(t, grant, "--clusterrole="+c.role, c.line)
						shell(t, "", grant).RequireDone(t)
						undo(t, strings.Fields(grant)[1:]...)
					}
				}
				if c.role == forViewers { // what changes something runs in TestTheShippedRolesAreEnoughForTheirCommands
					harness.Eventually(t, func() bool {
						return run(t, append(strings.Fields(c.line), "--as="+user)...).Code == c.code
					}, settles, 200*time.Millisecond, c.line)
				}
			}
		})
	}
}

// What view and admin gain by the roles that are aggregated to them.
func TestAggregationGivesViewAndAdminNothingButLeases(t *testing.T) {
	rules := func(role string) []rbacv1.PolicyRule {
		found, err := nodekeep.Admin.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
		require.NoError(t, err)
		return found.Rules
	}
	view := rules("system:aggregate-to-view")
	admin := slices.Concat(view, rules("system:aggregate-to-edit"), rules("system:aggregate-to-admin"))
	for role, item := range map[string][]rbacv1.PolicyRule{forViewers + "-namespaced": view, forOperators + "-namespaced": admin} {
		var gained []string
		for _, rule := range rules(role) {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !slices.ContainsFunc(item, func(found rbacv1.PolicyRule) bool {
						return len(found.ResourceNames) == 0 && slices.Contains(found.APIGroups, rule.APIGroups[0]) && slices.Contains(found.Resources, resource) && slices.Contains(found.Verbs, verb)
					}) {
						gained = append(gained, fmt.Sprint(verb, " ", resource, rule.ResourceNames))
					}
				}
			}
		}
		want := map[bool][]string{true: {"get leases[nodekeep-capture nodekeep-verify]"}}[role == forViewers+"-namespaced"]
		assert.Equal(t, want, gained, role)
	}
	for _, role := range []string{forViewers, forOperators} {
		found, err := nodekeep.Admin.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
		require.NoError(t, err)
		for label := range found.Labels {
			assert.NotContains(t, label, "aggregate", "%s has Nodes", role)
		}
	}
}

// Events about Nodes are in the namespace default, where other things are, too. Profiles of verification may name Services and DaemonSets of any
// namespace, so these can be read by name.
func TestTheRolesForUsersOpenNothingInNamespaceDefaultButEventsAndWhatProfilesName(t *testing.T) {
	for role, write := range map[string]string{forViewers: "no", forOperators: "yes"} {
		user := "default-" + role
		bindRole(t, role, user)
		allowed := func(verb, resource string) string {
			out, _ := nodekeep.Kubectl(t.Context(), "auth", "can-i", verb, resource, "-n", "default", "--as="+user) // no is an exit code
			return strings.TrimSpace(out)
		}
		require.Eventually(t, func() bool { return allowed("list", "events") == "yes" }, settles, 100*time.Millisecond)
		assert.Equal(t, write, allowed("create", "events"), role)
		assert.Equal(t, "yes", allowed("get", "services"), role)
		assert.Equal(t, "yes", allowed("get", "daemonsets"), role)
		for _, refused := range [][2]string{
			{"get", "configmaps"}, {"list", "configmaps"}, {"patch", "configmaps/kube-root-ca.crt"}, {"delete", "configmaps"}, {"list", "pods"}, {"get", "serviceaccounts"}, {"list", "services"}, {"list", "daemonsets"}, {"get", "deployments"},
		} {
			assert.Equal(t, "no", allowed(refused[0], refused[1]), "%s: %s", role, refused)
		}
	}
}
