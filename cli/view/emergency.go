package view

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// Declared is whether an emergency is declared.
type Declared struct {
	Holds bool
	Since metav1.Time // when its RoleBinding was created
}

// Line is one line for commands that show Nodes; empty: no emergency is declared. End is the command that ends it.
func (d Declared) Line(end string, now time.Time) string {
	if !d.Holds {
		return ""
	}
	return "An emergency was declared " + ago(d.Since.Time, now) + " ago: until it is ended, nodekeep closes no Node. To end it: " + end
}

// Emergency is what `nodekeep emergency` would do now.
type Emergency struct {
	Cluster, Namespace string
	Declared           Declared
	// Ignored shows that the API server cannot see an emergency, since capture's account may do everything. Then the objects that gate are deleted.
	Ignored bool
	// Unasked is why it is not known whether that is so; empty: it is known.
	Unasked           string
	Gated, Unverified []string // names of Nodes
	Objects           []PlannedDeletion
	End               string // the command that ends it
}

// Document is the answer as text.
func (e Emergency) Document(now time.Time) Document {
	var d Document
	d.with("Cluster", e.Cluster)
	declared := "none; it is declared now"
	if e.Declared.Holds {
		declared = "declared " + ago(e.Declared.Since.Time, now) + " ago; Nodes are opened once more"
	}
	d.with("Emergency", declared)
	d.with("Nodes behind the gate", firstOf(e.Gated, ": the gate is lifted, whatever they lack"))
	d.with("Unverified Nodes", firstOf(e.Unverified, ": the verification taint is removed, without the checks"))
	d.with("Until it is ended", "new Nodes are neither gated nor verified, and get no taints of taints.register")
	switch {
	case e.Ignored:
		d.with("The API server", "cannot see an emergency, since account nodekeep-capture may do everything. So the objects that gate are deleted. "+
			"helm upgrade, Argo CD and Flux create them again")
	case e.Unasked != "":
		d.with("The API server", "it is not known whether it sees an emergency: "+e.Unasked)
	default:
		d.with("It lasts", "until it is ended, also through helm upgrade, Argo CD and Flux")
	}
	d.with("To end it", e.End)
	d.Tables = []*metav1.Table{objectSteps(e.Objects)}
	return d
}

func objectSteps(objects []PlannedDeletion) *metav1.Table {
	table := tableOf("Kind", "Name", "Step")
	for _, object := range objects {
		add(table, object.Kind, object.Name, object.State)
	}
	return table
}

// EmergencyEnd is what `nodekeep emergency --end` would do now.
type EmergencyEnd struct {
	Cluster, Namespace string
	Declared           Declared
	Objects            []PlannedDeletion
	Missing            []string // objects that gate, and that do not exist
	Nodes              Reopened
	Unknown            string // why the Nodes are not known; empty: they are
}

// Reopened are the Nodes that the end of an emergency concerns.
type Reopened struct {
	Closed       []string // with a taint of verification: they are checked from then on
	Again        []string // open, and due to be checked again
	Unverified   []string // open, and not verified: they stay open
	Unregistered []string // they registered in the emergency, and lack taints of taints.register
}

// ReopenedOf looks at all Nodes; since is when the emergency was declared.
func ReopenedOf(nodes []*corev1.Node, p policy.Policy, since, now time.Time) (r Reopened) {
	p = p.Suspending(false)
	profiles := p.Verify()
	for _, node := range nodes {
		if node.DeletionTimestamp != nil {
			continue
		}
		if !node.CreationTimestamp.Time.Before(since) && len(unregistered(node, p)) > 0 {
			r.Unregistered = append(r.Unregistered, node.Name)
		}
		of := verify.NodeOf(node)
		profile, selected := profiles.For(node.Labels)
		action := verify.Plan(verify.Observed{Node: &of}, profiles, verify.Cluster{Gate: string(p.Gate())}, now)
		switch {
		case len(profiles.HeldBy(node.Spec.Taints)) > 0:
			r.Closed = append(r.Closed, node.Name)
		case !selected || profile.Reports():
		case action.Recheck != "" || action.Do == verify.DoHold:
			r.Again = append(r.Again, node.Name)
		case action.Progress.Last == nil || action.Progress.Last.Result != verify.VerdictPassed:
			r.Unverified = append(r.Unverified, node.Name)
		}
	}
	for _, names := range []*[]string{&r.Closed, &r.Again, &r.Unverified, &r.Unregistered} {
		slices.Sort(*names)
	}
	return r
}

// unregistered are the taints of taints.register that a Node lacks.
func unregistered(node *corev1.Node, p policy.Policy) []corev1.Taint {
	missing := policy.FreeOf(p.RegistrationTaints(node.Labels), node.Spec.Taints)
	return slices.DeleteFunc(missing, p.Verify().IsTaint)
}

// Document is the answer as text.
func (e EmergencyEnd) Document(now time.Time) Document {
	var d Document
	d.with("Cluster", e.Cluster)
	declared := "none"
	if e.Declared.Holds {
		declared = "declared " + ago(e.Declared.Since.Time, now) + " ago"
	}
	d.with("Emergency", declared)
	d.with("From then on", "new Nodes are gated and verified again, as the policy says")
	if e.Unknown != "" {
		d.with("Nodes", "not known: "+e.Unknown)
	} else {
		d.with("Closed Nodes", firstOf(e.Nodes.Closed, ": verification begins"))
		d.with("Checked again", firstOf(e.Nodes.Again, ": closed until their checks pass, a few at a time"))
		d.with("Open and not verified", firstOf(e.Nodes.Unverified, ": they stay open. To check them: nodekeep verify run --all"))
		d.with("Without registration taints", firstOf(e.Nodes.Unregistered, ": they registered in the emergency, and nodekeep adds taints of taints.register only once"))
	}
	if len(e.Missing) > 0 {
		d.with("Not there", firstOf(e.Missing, ": without them no Node is gated. Apply again what nodekeep was installed from, or run helm upgrade"))
	}
	d.Tables = []*metav1.Table{objectSteps(e.Objects)}
	return d
}
