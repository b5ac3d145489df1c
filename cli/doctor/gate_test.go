package doctor

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFindingsOfTheGatePolicy(t *testing.T) {
	const (
		bare    = "a Node that registers while the webhook is down comes up without its labels and takes workloads"
		spec    = "gate-policy: error: mutatingadmissionpolicy/nodekeep-gate: "
		binding = "gate-policy: error: mutatingadmissionpolicybinding/nodekeep-gate: "
		off     = "gate-policy: error: rolebinding/nodekeep-gate: "
	)
	requireFindings(t, map[string]breakage{
		"the policy is not there": {
			func(s *Seen) { s.GatePolicy = Absent[*admissionregistrationv1.MutatingAdmissionPolicy]() }, []string{spec + "it does not exist: " + bare},
		},
		"its binding is not there": {
			func(s *Seen) { s.GateBinding = Absent[*admissionregistrationv1.MutatingAdmissionPolicyBinding]() }, []string{binding + "it does not exist, so the policy does nothing: " + bare},
		},
		"it is switched off": {
			func(s *Seen) { s.GateSwitch = Absent[*rbacv1.RoleBinding]() }, []string{off + "it does not exist, which switches the gate off: " + bare},
		},
		"the right that the policy asks for is not there": {
			func(s *Seen) { s.GateRole = Absent[*rbacv1.Role]() }, []string{"gate-policy: error: role/nodekeep-gate: it does not exist, which switches the gate off: " + bare},
		},
		"the API server has no such policies": {
			func(s *Seen) {
				s.GateServed.Value = false
				s.GatePolicy, s.GateBinding = Absent[*admissionregistrationv1.MutatingAdmissionPolicy](), Absent[*admissionregistrationv1.MutatingAdmissionPolicyBinding]()
			},
			[]string{
				"gate-policy: warning: : this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has): unless its kubelet puts the gate on, " + bare,
				"guard-policies: warning: : this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has), so nothing removes such annotations from a kubelet's CREATE: " + forgeable,
			},
		},
		"it fails closed, and puts the gate back on": {
			func(s *Seen) {
				s.GatePolicy.Value.Spec.FailurePolicy, s.GatePolicy.Value.Spec.ReinvocationPolicy = nil, admissionregistrationv1.IfNeededReinvocationPolicy
			},
			[]string{
				spec + "failurePolicy Fail: an error in the policy keeps Nodes from joining",
				spec + "reinvocationPolicy IfNeeded: it puts back what the webhook has taken off",
			},
		},
		"it does nothing": {
			func(s *Seen) { s.GatePolicy.Value.Spec.Mutations = nil }, []string{spec + "it has no mutations: " + bare},
		},
		"it is for something else": {
			func(s *Seen) { s.GatePolicy.Value.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"pods"} }, []string{spec + "it does not match the CREATE of every Node: " + bare},
		},
		"it is for some Nodes by name": {
			func(s *Seen) {
				s.GatePolicy.Value.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"worker-1"}
			}, []string{spec + "it does not match the CREATE of every Node: " + bare},
		},
		"it is for some Nodes by label": {
			func(s *Seen) {
				s.GatePolicy.Value.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			}, []string{spec + "it does not match the CREATE of every Node: " + bare},
		},
		"it says of nothing what it is for": {
			func(s *Seen) { s.GatePolicy.Value.Spec.MatchConstraints = nil }, []string{spec + "it does not match the CREATE of every Node: " + bare},
		},
		"the binding is of another policy": {
			func(s *Seen) { s.GateBinding.Value.Spec.PolicyName = "other" }, []string{binding + "it binds other: " + bare},
		},
		"the binding leaves Nodes out": {
			func(s *Seen) { s.GateBinding.Value.Spec.MatchResources = &admissionregistrationv1.MatchResources{} }, []string{binding + "its matchResources leave Nodes out: " + bare},
		},
		"the processes take off another gate": {
			func(s *Seen) {
				s.Policy.Value.Data[gateKey] = "example.com/waits"
				s.Unnamed.Value.Spec.Taints[0].Key = "example.com/waits"
			},
			[]string{
				"gate-policy: error: deployment/nodekeep-capture: its --gate-key is nodekeep.dev/restoring, and configmap/nodekeep-policy says that example.com/waits is put on Nodes: they do not come out from behind it",
				"gate-policy: error: deployment/nodekeep-webhook: its --gate-key is nodekeep.dev/restoring, and configmap/nodekeep-policy says that example.com/waits is put on Nodes: they do not come out from behind it",
				"webhook-deployment: error: deployment/nodekeep-webhook: its pods do not tolerate example.com/waits:NoSchedule: a cluster whose Nodes are all new does not come back by itself",
				"capture-deployment: error: deployment/nodekeep-capture: its pods do not tolerate example.com/waits:NoSchedule: a cluster whose Nodes are all new does not come back by itself",
			},
		},
		"another key that all agree on": {
			func(s *Seen) {
				s.Policy.Value.Data[gateKey] = "example.com/waits"
				s.Unnamed.Value.Spec.Taints[0].Key = "example.com/waits"
				for _, deployment := range []Read[*appsv1.Deployment]{s.Webhook, s.Capture} {
					pod := &deployment.Value.Spec.Template.Spec
					pod.Containers[0].Args = append(pod.Containers[0].Args, "--gate-key=nodekeep.dev/before", "--gate-key=example.com/waits")
					pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: "example.com/waits", Operator: corev1.TolerationOpExists})
				}
			}, nil,
		},
	})
}
