package impact

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// EmergencyEndNodes are the Nodes that the end of an emergency concerns.
type EmergencyEndNodes struct {
	Closed                    []string // with a taint of verification: they are checked from then on
	Recheck                   []string // open, and due to be checked again
	Unverified                []string // open, and not verified: they stay open
	WithoutRegistrationTaints []string // they registered in the emergency, and lack taints of taints.register
}

// EmergencyEndCounter finds the Nodes that the end of an emergency concerns, Node by Node. It keeps their names, no Nodes.
type EmergencyEndCounter struct {
	policy     policy.Policy
	declared   bool
	declaredAt time.Time
	now        time.Time
	found      EmergencyEndNodes
}

// NewEmergencyEndCounter begins with no Node. The start is when the emergency was declared; it is ignored if none is.
func NewEmergencyEndCounter(p policy.Policy, declared bool, start, now time.Time) *EmergencyEndCounter {
	return &EmergencyEndCounter{policy: p.WithEmergency(false), declared: declared, declaredAt: start, now: now}
}

// Add looks at one Node.
func (r *EmergencyEndCounter) Add(node *corev1.Node) {
	if node.DeletionTimestamp != nil {
		return
	}
	found, profiles := &r.found, r.policy.Verify()
	if r.declared && !node.CreationTimestamp.Time.Before(r.declaredAt) && len(missingRegistrationTaints(node, r.policy)) > 0 {
		found.WithoutRegistrationTaints = append(found.WithoutRegistrationTaints, node.Name)
	}
	verifyNode := verify.NodeOf(node)
	profile, selected := profiles.Match(node.Labels)
	action := verify.Plan(verify.Observed{Node: &verifyNode}, profiles, verify.Cluster{Gate: string(r.policy.Gate())}, r.now)
	switch {
	case len(profiles.ClosingTaints(node.Spec.Taints)) > 0:
		found.Closed = append(found.Closed, node.Name)
	case !selected || profile.ReportsOnly():
	case action.Recheck != "" || action.Operation == verify.DoHold:
		found.Recheck = append(found.Recheck, node.Name)
	case action.Progress.Last == nil || action.Progress.Last.Result != verify.VerdictPassed:
		found.Unverified = append(found.Unverified, node.Name)
	}
}

// Nodes returns the Nodes that were found, by name.
func (r *EmergencyEndCounter) Nodes() EmergencyEndNodes {
	found := r.found
	for _, names := range []*[]string{&found.Closed, &found.Recheck, &found.Unverified, &found.WithoutRegistrationTaints} {
		*names = slices.Sorted(slices.Values(*names))
	}
	return found
}

// missingRegistrationTaints returns the taints of taints.register that a Node lacks.
func missingRegistrationTaints(node *corev1.Node, p policy.Policy) []corev1.Taint {
	missing := policy.WithoutKeys(p.RegistrationTaints(node.Labels), node.Spec.Taints)
	return slices.DeleteFunc(missing, p.Verify().IsTaint)
}
