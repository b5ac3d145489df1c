package contract

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// nodeHealthCheck has the fields of remediation.medik8s.io/v1alpha1 that a user sets. They are those of
// config/crd/bases/remediation.medik8s.io_nodehealthchecks.yaml in github.com/medik8s/node-healthcheck-operator, commit 00da759e5d5e. Its Go module is
// not published under a version.
type nodeHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector               metav1.LabelSelector    `json:"selector"`
		UnhealthyConditions    []unhealthyCondition    `json:"unhealthyConditions"`
		MinHealthy             *intstr.IntOrString     `json:"minHealthy"`
		PauseRequests          []string                `json:"pauseRequests"`
		RemediationTemplate    *corev1.ObjectReference `json:"remediationTemplate"`
		EscalatingRemediations []struct {
			RemediationTemplate corev1.ObjectReference `json:"remediationTemplate"`
			Order               int                    `json:"order"`
			Timeout             metav1.Duration        `json:"timeout"`
		} `json:"escalatingRemediations"`
	} `json:"spec"`
}

type unhealthyCondition struct {
	Type     string                 `json:"type"`
	Status   corev1.ConditionStatus `json:"status"`
	Duration metav1.Duration        `json:"duration"`
}

// nodeReadinessRule has the fields of readiness.node.x-k8s.io/v1alpha1 that a user sets. They are those of api/v1alpha1/nodereadinessrule_types.go in
// sigs.k8s.io/node-readiness-controller, commit 00ef9cbc4f37. Its Go module is not published under a version.
type nodeReadinessRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Conditions []struct {
			Type           string                 `json:"type"`
			RequiredStatus corev1.ConditionStatus `json:"requiredStatus"`
		} `json:"conditions"`
		EnforcementMode string               `json:"enforcementMode"` // bootstrap-only or continuous
		Taint           corev1.Taint         `json:"taint"`
		NodeSelector    metav1.LabelSelector `json:"nodeSelector"`
		DryRun          bool                 `json:"dryRun"`
	} `json:"spec"`
}
