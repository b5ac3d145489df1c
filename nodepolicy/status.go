package nodepolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/api/v1alpha1"
	"nodekeep.dev/nodekeep/policy"
)

// situation is what the status of a NodePolicy says.
type situation struct {
	generation int64
	trouble    error               // why the spec cannot be used
	held       *v1alpha1.HeldRules // rules that wait for an operator; nil: none
	counted    bool                // whether it is known which rules wait
	finishes   string              // a migration, as FROM=TO, from which the old key is to be removed
	nodes      int64
	pods       []string // of nodekeep, whatever their phase
	running    []string // those that run
	unknown    error    // why the Pods are not known
	governs    bool     // the policy in force has governance
	ungoverned error    // why the API server does not go by it
	unread     bool     // and whether that is only not known
}

// maxShownStatus is how many bytes of a message a condition has.
const maxShownStatus = 1 << 10

// maxShownReplicas is how many replicas a message names.
const maxShownReplicas = 3

// statusOf returns the status that a NodePolicy should have, which has another one. Entries of readBy that are of no Pod of nodekeep are dropped. Where no Pod
// is found, nothing shows which these are.
func statusOf(prev v1alpha1.NodePolicyStatus, s situation, now metav1.Time) v1alpha1.NodePolicyStatus {
	next := v1alpha1.NodePolicyStatus{ObservedGeneration: s.generation, Held: s.held, Nodes: &s.nodes, ReadBy: maps.Clone(prev.ReadBy)}
	if len(s.pods) > 0 {
		maps.DeleteFunc(next.ReadBy, func(pod string, _ int64) bool { return !slices.Contains(s.pods, pod) })
	}
	for _, condition := range []metav1.Condition{acceptedCondition(s), inForceCondition(s, prev.ReadBy), heldCondition(s), governanceCondition(s)} {
		condition.ObservedGeneration, condition.LastTransitionTime = s.generation, now
		if old := apimeta.FindStatusCondition(prev.Conditions, condition.Type); old != nil && old.Status == condition.Status && !old.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		next.Conditions = append(next.Conditions, condition)
	}
	return next
}

func acceptedCondition(s situation) metav1.Condition {
	if s.trouble != nil {
		return metav1.Condition{
			Type: v1alpha1.Accepted, Status: metav1.ConditionFalse, Reason: "Unusable",
			Message: "The last good policy stays in force. " + policy.Shortened(s.trouble.Error(), maxShownStatus),
		}
	}
	return metav1.Condition{Type: v1alpha1.Accepted, Status: metav1.ConditionTrue, Reason: "Usable", Message: "nodekeep can use the spec."}
}

func inForceCondition(s situation, readBy map[string]int64) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.InForce, Status: metav1.ConditionUnknown, Reason: "ReplicasUnknown"}
	behind := v1alpha1.NodePolicyStatus{ReadBy: readBy}.Behind(s.generation, s.running)
	switch {
	case s.trouble != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Unusable", "The last good policy stays in force."
	case s.unknown != nil:
		condition.Message = policy.Shortened("The Pods of nodekeep cannot be listed: "+s.unknown.Error(), maxShownStatus)
	case len(s.running) == 0:
		condition.Message = "No Pod of nodekeep runs in its namespace."
	case len(behind) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, "ReplicasBehind"
		condition.Message = fmt.Sprintf("%d of %d replicas do not follow this generation: %s.", len(behind), len(s.running), abbreviate(behind))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, "EveryReplicaFollows"
		condition.Message = fmt.Sprintf("All %d replicas follow this generation.", len(s.running))
	}
	return condition
}

// abbreviate names the first of many.
func abbreviate(names []string) string {
	if len(names) <= maxShownReplicas {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxShownReplicas], ", "), len(names)-maxShownReplicas)
}

func heldCondition(s situation) metav1.Condition {
	switch {
	case !s.counted:
		return metav1.Condition{
			Type: v1alpha1.Held, Status: metav1.ConditionUnknown, Reason: "NotCountedYet",
			Message: "It is not known yet on how many Nodes the rules would remove or change labels. Until then, they only add labels.",
		}
	case s.held == nil:
		return metav1.Condition{Type: v1alpha1.Held, Status: metav1.ConditionFalse, Reason: "NothingWaits", Message: "No rule and no migration waits for an operator."}
	}
	accept := fmt.Sprintf("spec.accept: %s, or nodekeep accept rules %s", s.held.Rules, s.held.Rules)
	if s.finishes != "" {
		accept = fmt.Sprintf("nodekeep accept migration %s, which looks at what selects on the old key", s.finishes)
	}
	return metav1.Condition{
		Type: v1alpha1.Held, Status: metav1.ConditionTrue, Reason: "AwaitsAcceptance",
		Message: fmt.Sprintf("Rules or migrations would remove or change labels on %d of %d Nodes. Until they are accepted, they only add labels. To accept: %s.", s.held.Nodes, s.nodes, accept),
	}
}

func governanceCondition(s situation) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.GovernanceEnforced, Status: metav1.ConditionFalse}
	switch {
	case s.trouble != nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, "Unusable"
		condition.Message = "The API server reads the section governance as it is, though nodekeep cannot use the spec."
	case !s.governs:
		condition.Reason, condition.Message = "NothingGoverned", "The policy governs no label."
	case s.unread:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, "PoliciesUnknown", policy.Shortened(s.ungoverned.Error(), maxShownStatus)
	case s.ungoverned != nil:
		condition.Reason, condition.Message = "PoliciesDiffer", policy.Shortened("The API server does not go by the section governance: "+s.ungoverned.Error(), maxShownStatus)
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "PoliciesInForce", "The API server goes by the section governance."
	}
	return condition
}
