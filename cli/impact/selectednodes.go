package impact

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"nodekeep.dev/nodekeep/verify"
)

// SelectedNodes sums up which Nodes profiles select, and what these Nodes have. It keeps no Nodes.
type SelectedNodes struct {
	profiles   verify.Profiles
	daemonSets map[string]*appsv1.DaemonSet
	gate       string
	now        time.Time

	nodes, schedulable int                        // how many the cluster has, and how many of them take workloads
	selected           map[string]*nodesOfProfile // by the profile's name
}

// nodesOfProfile are the Nodes of one profile. New Nodes may lack resources and conditions that come later, so only complete Nodes show what Nodes of a
// profile have.
type nodesOfProfile struct {
	all, complete int
	conditions    sets.Set[string]
	maximum       corev1.ResourceList   // of each resource, the most that one Node has
	excluded      map[string]*NodeCount // by DaemonSet: those on which it runs no Pod
	imageWaiting  NodeCount             // those whose worker Pod waits for an image
	imageMessage  string                // what the first of them says of the image
}

// NewSelectedNodes begins with no Node. The DaemonSets are those that the profiles wait for; gate is the key of the gate's taint.
func NewSelectedNodes(profiles verify.Profiles, facts ProfileFacts, gate string, now time.Time) *SelectedNodes {
	s := &SelectedNodes{profiles: profiles, daemonSets: facts.DaemonSets, gate: gate, now: now, selected: map[string]*nodesOfProfile{}}
	for _, profile := range profiles.All() {
		s.selected[profile.Name] = &nodesOfProfile{conditions: sets.New[string](), maximum: corev1.ResourceList{}, excluded: map[string]*NodeCount{}}
	}
	return s
}

// Add looks at one Node.
func (s *SelectedNodes) Add(node *corev1.Node) {
	s.nodes++
	verifyNode := verify.NodeOf(node)
	if verify.TakesWorkloads(verifyNode.Ready, node.Spec.Unschedulable, node.Spec.Taints) {
		s.schedulable++
	}
	profile, ok := s.profiles.Match(node.Labels)
	if !ok {
		return
	}
	selected := s.selected[profile.Name]
	selected.all++
	closed := len(s.profiles.ClosingTaints(node.Spec.Taints)) > 0
	if last := verify.ParseProgress(verifyNode.Annotation).Last; closed && last != nil && last.Diagnosis().Cause == verify.CauseImage {
		if selected.imageWaiting.add(node.Name); selected.imageWaiting.Nodes == 1 {
			selected.imageMessage = last.Message
		}
	}
	isNew := (closed || verify.Incomplete(node.Spec.Taints, s.gate) != "") && s.now.Sub(verifyNode.Created) <= profile.Deadline
	if !verifyNode.Ready || isNew {
		return
	}
	selected.complete++
	for name := range verifyNode.Conditions {
		selected.conditions.Insert(name)
	}
	for name, quantity := range verifyNode.Allocatable {
		if maximum, ok := selected.maximum[name]; !ok || quantity.Cmp(maximum) > 0 {
			selected.maximum[name] = quantity
		}
	}
	for _, name := range profile.Wait.DaemonSets {
		if daemonSet := s.daemonSets[name]; daemonSet != nil && !affinitySelects(daemonSet, node) {
			if selected.excluded[name] == nil {
				selected.excluded[name] = &NodeCount{}
			}
			selected.excluded[name].add(node.Name)
		}
	}
}

// affinitySelects reports whether the nodeSelector and the node affinity of a DaemonSet select a Node. An affinity that cannot be read excludes none.
func affinitySelects(daemonSet *appsv1.DaemonSet, node *corev1.Node) bool {
	pod := &corev1.Pod{Spec: daemonSet.Spec.Template.Spec}
	selects, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return selects || err != nil
}

// nodeExamples returns how many Nodes there are, and the first of them.
func nodeExamples(n NodeCount) string {
	return fmt.Sprintf("%s, such as %s", nodeCount(n.Nodes), n.First[0])
}

// nodeCount returns a number of Nodes.
func nodeCount(nodes int) string {
	if nodes == 1 {
		return "1 Node"
	}
	return fmt.Sprintf("%d Nodes", nodes)
}
