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
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one NodePolicy, and its name is default"
type NodePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What holds for Nodes.
	Spec policy.Spec `json:"spec,omitempty"`
}
