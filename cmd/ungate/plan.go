package ungate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

// behind is the Nodes that carry the gate, without what is not needed of them: a page of Nodes is large.
func behind(nodes []corev1.Node, gate policy.Gate) (gated []*observe.Node) {
	for i := range nodes {
		if node := &nodes[i]; gate.On(node.Spec.Taints) {
			slim := &corev1.Node{}
			slim.Name, slim.UID, slim.ResourceVersion, slim.CreationTimestamp = node.Name, node.UID, node.ResourceVersion, node.CreationTimestamp
			slim.Spec.Taints = node.Spec.Taints
			gated = append(gated, observe.Of(slim))
		}
	}
	return gated
}

// late reports whether the Node was made behind the gate after gating had stopped, both by the clock of the API server: then it is its
// kubelet or its provisioner that puts the gate on.
func late(node *observe.Node, stopped time.Time) bool {
	return !stopped.IsZero() && node.CreationTimestamp.After(stopped)
}

// named lists names for people: not more than they will read.
func named(names []string) string {
	const most = 20
	slices.Sort(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// count is a number of Nodes in words.
func count(n int) string {
	if n == 1 {
		return "1 Node"
	}
	return fmt.Sprintf("%d Nodes", n)
}
