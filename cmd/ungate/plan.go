package ungate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
)

// nodePatch is a JSON merge patch of a Node (RFC 7386). uid and resourceVersion make it apply to exactly the object that was read:
// another object of that name answers 422, a newer state of it 409.
type nodePatch struct {
	Metadata struct {
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		Taints []corev1.Taint `json:"taints"` // null removes the list
	} `json:"spec"`
}

// Patch is the JSON merge patch that takes every copy of the gate off the Node in the state given, and off no other.
func Patch(node *corev1.Node, gate policy.Gate) ([]byte, error) {
	var patch nodePatch
	patch.Metadata.UID = string(node.UID)
	patch.Metadata.ResourceVersion = node.ResourceVersion
	if left := gate.Without(node.Spec.Taints); len(left) > 0 {
		patch.Spec.Taints = left
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of node %q: %w", node.Name, err)
	}
	return body, nil
}

// behind is the Nodes that carry the gate, without what is not needed of them: a page of Nodes is large.
func behind(nodes []corev1.Node, gate policy.Gate) (gated []*corev1.Node) {
	for i := range nodes {
		if node := &nodes[i]; gate.On(node.Spec.Taints) {
			slim := &corev1.Node{}
			slim.Name, slim.UID, slim.ResourceVersion, slim.CreationTimestamp = node.Name, node.UID, node.ResourceVersion, node.CreationTimestamp
			slim.Spec.Taints = node.Spec.Taints
			gated = append(gated, slim)
		}
	}
	return gated
}

// late reports whether the Node was made behind the gate after gating had stopped, both by the clock of the API server: then it is its
// kubelet or its provisioner that puts the gate on.
func late(node *corev1.Node, stopped time.Time) bool {
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
