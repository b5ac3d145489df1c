package attack

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// facts are what no attacker may change, by what they are about.
type facts map[string]string

// attackers reports whether a Node is an attacker's own one. There it may change what Kubernetes lets it change.
func attackers(node string) bool { return node == evil || strings.HasPrefix(node, "edited-") }

// changing reports whether the test itself changes a Node during the attack.
func changing(node string) bool { return strings.HasPrefix(node, "returns-") }

// ownOf reports whether the attacker whose Node it is may change a label of it. A kubelet may not set the protected ones, and governance denies nothing
// to kubelets. Another client may set all but what governance denies.
func ownOf(node, key string) bool {
	if node == evil {
		return !strings.HasPrefix(key, "node-role.kubernetes.io/") && !strings.HasPrefix(key, "node-restriction.kubernetes.io/")
	}
	return attackers(node) && key != "example.com/denied"
}

// taintsOf returns the taints that no attacker may change. A kubelet may remove the label that says verified. Then its own Node is checked again.
func taintsOf(node *corev1.Node) []string {
	return slices.DeleteFunc(harness.TaintsOf(node), func(taint string) bool {
		return node.Name == evil && strings.HasPrefix(taint, verify.Taint+"=recheck:")
	})
}

// factOf returns what of a Node may not change. Inventories change the labels that rules make of them: that is what they are for.
func factOf(node *corev1.Node) string {
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "example.com/rack-") || ownOf(node.Name, key) })
	if attackers(node.Name) {
		return fmt.Sprint(node.UID, labels, taintsOf(node), node.Spec.Unschedulable)
	}
	if changing(node.Name) {
		return fmt.Sprint(labels, taintsOf(node))
	}
	var says []string
	for _, key := range []string{"nodekeep.dev/restored", "nodekeep.dev/taints", "example.com/note"} {
		says = append(says, node.Annotations[key])
	}
	return fmt.Sprint(node.UID, labels, taintsOf(node), node.Spec.Unschedulable, node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID, says, node.DeletionTimestamp)
}

// recordFact returns what of a record may not change. A kubelet's own labels are in the record of its Node.
func recordFact(r record.Record) string {
	items := r.Items()
	if attackers(r.Node) {
		maps.DeleteFunc(items, func(key, _ string) bool { return !record.IsTaint(key) && ownOf(r.Node, key) })
	}
	if attackers(r.Node) || changing(r.Node) {
		return fmt.Sprint(items)
	}
	return fmt.Sprint(items, r.DeletedAt, r.Machine, r.Followed, r.Quarantined != nil)
}

// look reads all facts from the API server.
func look(t *testing.T) facts {
	t.Helper()
	all := facts{}
	list, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for n := range list.Items {
		all["Node "+list.Items[n].Name] = factOf(&list.Items[n])
	}
	stored, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, cm := range stored.Items {
		node, ok := strings.CutPrefix(cm.Name, "node.")
		found, err := store.Decode([]byte(cm.Data[store.DataKey]), node)
		switch {
		case ok && err == nil:
			all["record of Node "+node] = recordFact(found)
		case cm.Name != "nodekeep-inventory": // which snapshots are held
			all["ConfigMap "+cm.Name] = fmt.Sprint(cm.UID, cm.Data)
		}
	}
	secrets, err := nodekeep.Admin.CoreV1().Secrets(harness.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, secret := range secrets.Items {
		all["Secret "+secret.Name] = fmt.Sprint(secret.UID, secret.Data)
	}
	client, err := dynamic.NewForConfig(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	for _, resource := range []schema.GroupVersionResource{
		{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}, {Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}, {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}, {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}, {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	} {
		found, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, object := range found.Items {
			all[resource.Resource+" "+object.GetNamespace()+"/"+object.GetName()] = fmt.Sprint(object.GetUID(), object.Object["spec"], object.Object["webhooks"], object.Object["subjects"], object.GetAnnotations(), object.GetDeletionTimestamp())
		}
	}
	delete(all, "Node watch-witness") // the watch of this test has it
	delete(all, "record of Node watch-witness")
	return all
}

// changed says what differs.
func (prev facts) changed(next facts) (all []string) {
	for about, old := range prev {
		if value, present := next[about]; !present {
			all = append(all, about+" does not exist any more")
		} else if value != old {
			all = append(all, fmt.Sprintf("%s was %s, and is %s", about, old, value))
		}
	}
	for about, value := range next {
		if _, present := prev[about]; !present {
			all = append(all, fmt.Sprintf("%s is new: %s", about, value))
		}
	}
	slices.Sort(all)
	return all
}

// atAnyMoment says which states of Nodes differed, also for a moment only.
func (prev facts) atAnyMoment(watched *harness.Watcher) (all []string) {
	for _, state := range watched.Stop() {
		if old, known := prev["Node "+state.Name]; known && !changing(state.Name) && old != factOf(state.Node) {
			all = append(all, fmt.Sprintf("Node %s at version %s: was %s, and is %s", state.Name, state.ResourceVersion, old, factOf(state.Node)))
		}
	}
	return all
}
