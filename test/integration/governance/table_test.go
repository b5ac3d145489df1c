package governance

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/test/harness"
)

// attempted is a row of the table of outcomes.
type attempted struct {
	kind, old, updated, by, resource, verb, outcome string
}

// table reads the rows of testdata/outcomes.md.
func table(t *testing.T) (rows []attempted) {
	t.Helper()
	for i, line := range strings.Split(marked(t, page(t), "the table of outcomes"), "\n") {
		if i < 2 { // the head
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, 7, line)
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		rows = append(rows, attempted{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]})
	}
	return rows
}

// read returns the labels of a cell: "a=b c=d"; "-" is none.
func read(cell string) map[string]string {
	labels := map[string]string{}
	for _, pair := range strings.Fields(cell) {
		if key, value, found := strings.Cut(pair, "="); found {
			labels[key] = value
		}
	}
	return labels
}

// warnings collects those of the API server.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// governed returns the warnings of governance since the last call.
func (w *warnings) governed() (texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.all {
		if strings.Contains(text, governance.WarnPolicy) {
			texts = append(texts, text)
		}
	}
	w.all = nil
	return texts
}

// clients of the identities of the table.
func client(t *testing.T, by, node string) (*kubernetes.Clientset, *warnings) {
	t.Helper()
	var config *rest.Config
	var err error
	switch by {
	case "operator", "owner": // with rights for Nodes, and nothing else
		config = nodekeep.Cluster.Admin()
		config.Impersonate = rest.ImpersonationConfig{UserName: map[string]string{"operator": "olga", "owner": "ann"}[by], Groups: []string{"node-operators"}}
	case "admin":
		config = nodekeep.Cluster.Admin()
	case "kubelet":
		config = nodekeep.Cluster.Kubelet(node)
	case "cloud controller":
		config, err = nodekeep.Cluster.ServiceAccount(t.Context(), "kube-system", "cloud-controller-manager")
	case "nodekeep":
		config, err = nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-capture")
	default:
		t.Fatalf("the table has an unknown client %q", by)
	}
	require.NoError(t, err)
	seen := &warnings{}
	config.WarningHandler = seen
	made, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return made, seen
}

// rights lets operators and the cloud controller change Nodes, as in clusters.
func rights(t *testing.T) {
	t.Helper()
	ctx, admin := t.Context(), nodekeep.Admin
	_, err := admin.CoreV1().ServiceAccounts("kube-system").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "change-nodes"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, Verbs: []string{"get", "create", "update", "patch"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "change-nodes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "change-nodes"},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "node-operators"},
			{Kind: "ServiceAccount", Namespace: "kube-system", Name: "cloud-controller-manager"},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	nodekeep.WaitRight(t, "olga", []string{"node-operators"}, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}, true)
}

// audited returns how often the API server has audited a request because of governance.
func audited(t *testing.T) float64 {
	t.Helper()
	return nodekeep.APIServerSeries(t).Sum("apiserver_validating_admission_policy_check_total", `enforcement_action="audit"`, `policy="`+governance.AuditPolicy+`"`)
}

// inForce waits until the API server goes by all three policies.
func inForce(t *testing.T) {
	t.Helper()
	admin, seen := client(t, "admin", "")
	nodekeep.RegisterNode(t, harness.RegistrationWith("probe", map[string]string{}))
	dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	prev := audited(t)
	require.Eventually(t, func() bool {
		_, err := admin.CoreV1().Nodes().Patch(t.Context(), "probe", types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"x"}}}`), dry)
		return apierrors.IsInvalid(err)
	}, harness.Settles, 50*time.Millisecond, "deny")
	harness.Eventually(t, func() bool {
		_, err := admin.CoreV1().Nodes().Patch(t.Context(), "probe", types.MergePatchType, []byte(`{"metadata":{"labels":{"site":"x","cost":"x"}}}`), dry)
		require.NoError(t, err)
		return len(seen.governed()) > 0 && audited(t) > prev
	}, harness.Settles, 50*time.Millisecond, "warn and audit")
}

// perform does what a row says, and is its outcome.
func (a attempted) perform(t *testing.T, node string) (outcome, reason string) {
	t.Helper()
	prev, next := read(a.old), read(a.updated)
	touched := slices.AppendSeq(slices.Collect(maps.Keys(prev)), maps.Keys(next))
	made, seen := client(t, a.by, node)
	nodes := made.CoreV1().Nodes()
	wasAudited := audited(t)
	var err error
	if a.verb == "create" {
		_, err = nodes.Create(t.Context(), harness.RegistrationWith(node, next), metav1.CreateOptions{})
	} else {
		nodekeep.RegisterNode(t, harness.RegistrationWith(node, prev)) // a kubelet's CREATE is never denied
		seen.governed()
		wasAudited = audited(t)
		err = a.change(t, nodes, node, prev, next)
	}
	// Both a refusal by RBAC and one by NodeRestriction would be forbidden: only an invalid request was denied by a policy.
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), governance.DenyPolicy) {
		got := nodekeep.Node(t, node).Labels
		for key, value := range prev {
			assert.Equal(t, value, got[key], "what is denied changes nothing")
		}
		return "denied", err.Error()
	}
	require.NoError(t, err)
	got := nodekeep.Node(t, node).Labels
	maps.DeleteFunc(got, func(key, _ string) bool { return !slices.Contains(touched, key) })
	assert.Equal(t, next, got)
	switch texts := seen.governed(); {
	case len(texts) > 0:
		return "warned", strings.Join(texts, "; ")
	case audited(t) > wasAudited:
		return "audited", ""
	}
	return "allowed", ""
}

// change makes the request of a row.
func (a attempted) change(t *testing.T, nodes typedcorev1.NodeInterface, node string, prev, next map[string]string) (err error) {
	t.Helper()
	var subresources []string
	if a.resource == "nodes/status" {
		subresources = []string{"status"}
	}
	switch a.verb {
	case "patch":
		labels := map[string]any{}
		for key := range prev {
			labels[key] = nil
		}
		for key, value := range next {
			labels[key] = value
		}
		_, err = nodes.Patch(t.Context(), node, types.MergePatchType, harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": labels}}), metav1.PatchOptions{}, subresources...)
	case "apply":
		body := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node, "labels": next}}
		force := true
		_, err = nodes.Patch(t.Context(), node, types.ApplyPatchType, harness.MustJSON(t, body), metav1.PatchOptions{FieldManager: "table", Force: &force}, subresources...)
	case "update":
		for range 20 { // capture changes the Node, too
			var live *corev1.Node
			live, err = nodes.Get(t.Context(), node, metav1.GetOptions{})
			require.NoError(t, err)
			for key := range prev {
				delete(live.Labels, key)
			}
			maps.Copy(live.Labels, next)
			if subresources == nil {
				_, err = nodes.Update(t.Context(), live, metav1.UpdateOptions{})
			} else {
				_, err = nodes.UpdateStatus(t.Context(), live, metav1.UpdateOptions{})
			}
			if !apierrors.IsConflict(err) {
				break
			}
		}
	default:
		t.Fatalf("the table has an unknown verb %q", a.verb)
	}
	return err
}

func TestEveryAttemptHasTheOutcomeOfTheDocumentedTable(t *testing.T) {
	rows := table(t)
	require.GreaterOrEqual(t, len(rows), 40)
	rights(t)
	govern(t, documented(t))
	inForce(t)
	for i, row := range rows {
		t.Run(strconv.Itoa(i+1)+" "+row.kind+" by "+row.by+" in "+row.resource+" by "+row.verb, func(t *testing.T) {
			outcome, reason := row.perform(t, "attempt-"+strconv.Itoa(i+1))
			assert.Equal(t, row.outcome, outcome, reason)
			t.Log(reason)
		})
	}
}
