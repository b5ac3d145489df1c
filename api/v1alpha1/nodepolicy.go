// Package v1alpha1 has the NodePolicy, as the API server knows it. What its spec means is in package policy. controller-gen makes the schema
// from here (make manifests).
//
// +groupName=nodekeep.dev
// +kubebuilder:validation:Optional
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// NodePolicy says which labels and taints of Nodes nodekeep keeps, and what it adds. There is one, named default. A field that is left out has its
// default. Without the object, the policy that was accepted last stays in force.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,singular=nodepolicy,path=nodepolicies,shortName=np
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:metadata:labels="app.kubernetes.io/name=nodekeep"
// +kubebuilder:metadata:labels="app.kubernetes.io/component=policy"
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=nodekeep"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Held",type=string,JSONPath=`.status.held.rules`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one NodePolicy, and its name is default"
type NodePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What holds for Nodes.
	Spec policy.Spec `json:"spec,omitempty"`
	// What became of it.
	Status NodePolicyStatus `json:"status,omitempty"`
}

// NodePolicyStatus is what became of a NodePolicy. nodekeep decides nothing by it.
type NodePolicyStatus struct {
	// The generation of the spec that the leader of capture judged last.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Accepted, InForce, Held and GovernanceEnforced.
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Rules and migrations that only add labels until an operator accepts them.
	Held *HeldRules `json:"held,omitempty"`
	// How many Nodes there are, as of a minute ago at most.
	Nodes *int64 `json:"nodes,omitempty"`
	// Which generation of the spec each replica has read, by the name of its Pod.
	// +kubebuilder:validation:MaxProperties=1000
	ReadBy map[string]int64 `json:"readBy,omitempty"`
}

// Types of conditions.
const (
	Accepted = "Accepted" // nodekeep can use the spec
	InForce  = "InForce"  // each replica goes by this generation of the spec
	Held     = "Held"     // rules or migrations wait for an operator

	GovernanceEnforced = "GovernanceEnforced" // the API server goes by the section governance
)

// HeldRules are rules and migrations that wait for an operator.
type HeldRules struct {
	// Their hash, which spec.accept and `nodekeep accept rules` take.
	// +required
	Rules string `json:"rules"`
	// On how many Nodes they would remove or change labels.
	Nodes int64 `json:"nodes"`
}
