package view

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Uninstall is what `nodekeep uninstall` would delete and change now.
type Uninstall struct {
	Cluster, Namespace string
	Gated, Unverified  []string // names of Nodes
	Objects            []ObjectStep
	Leases             []string // that stay
	Emergency          string   // that stays, and how to end it; empty: there is none
}

// ObjectStep is what a plan does with one object.
type ObjectStep struct{ Kind, Name, Step string }

// Document returns the answer as text.
func (u Uninstall) Document(time.Time) Document {
	var d Document
	d.addFact("Cluster", u.Cluster)
	d.addFact("Nodes behind the gate", nodesText(u.Gated, ": capture completes those that it can, then the gate is lifted"))
	d.addFact("Nodes behind a verification taint", nodesText(u.Unverified, ": the verification taint is removed"))
	d.addFact("Stays", "the records and the processes in namespace "+u.Namespace)
	d.addFact("Stays, too", "NodePolicy default, where there is one, and its CustomResourceDefinition")
	if len(u.Leases) > 0 {
		d.addFact("Leases that stay", strings.Join(u.Leases, ", ")+" in namespace "+u.Namespace+"; a later installation takes them over")
	}
	if u.Emergency != "" {
		d.addFact("Stays as well", u.Emergency)
	}
	d.Tables = []*metav1.Table{objectSteps(u.Objects)}
	return d
}

// PolicyStays shows how to save the policy, and how to delete it.
const PolicyStays = `The CustomResourceDefinition of NodePolicies stays, and NodePolicy default, where there is one. To save the policy, and to delete both:
  kubectl get nodepolicy default -o yaml >policy.yaml
  kubectl delete crd nodepolicies.nodekeep.dev`

// namedNodes is how many Nodes a plan names.
const namedNodes = 5

// nodesText counts Nodes, names the first, and shows what is done about them.
func nodesText(nodes []string, suffix string) string {
	if len(nodes) == 0 {
		return "none"
	}
	names := strings.Join(nodes[:min(len(nodes), namedNodes)], ", ")
	if len(nodes) > namedNodes {
		names += ", ..."
	}
	return fmt.Sprintf("%d (%s)%s", len(nodes), names, suffix)
}
