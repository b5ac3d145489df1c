package nodestate

import (
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
)

// kubelets returns the managers by whose name a kubelet sets labels of its own.
func kubelets() []string { return []string{"kubelet", "k3s", "kubelite"} }

// Registration returns the review that the API server would send if the Node's kubelet registered it now. The Node has the same machine and the labels
// that its kubelet has set. It has the gate, because nothing removes the gate before the webhook answers. Of a deleted Node only the name is known.
func (s State) Registration(inputs plan.Inputs) (*admissionv1.AdmissionRequest, error) {
	node := corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: s.kubeletLabels()},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{inputs.Policy.Gate().Taint()}},
	}
	machine := s.Machine()
	node.Spec.ProviderID = machine.ProviderID
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = machine.SystemUUID, machine.MachineID
	raw, err := json.Marshal(node)
	if err != nil {
		return nil, fmt.Errorf("encode registration of node %q: %w", s.Name, err)
	}
	return &admissionv1.AdmissionRequest{
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Node"},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "nodes"},
		Name:      s.Name,
		Operation: admissionv1.Create,
		UserInfo:  authenticationv1.UserInfo{Username: "system:node:" + s.Name, Groups: []string{"system:nodes", "system:authenticated"}},
		Object:    runtime.RawExtension{Raw: raw},
	}, nil
}

// kubeletLabels returns the labels that a kubelet brings: those which it has set on the Node, by managedFields.
func (s State) kubeletLabels() map[string]string {
	labels := map[string]string{corev1.LabelHostname: s.Name}
	if s.Node == nil {
		return labels
	}
	owners := observe.FromNode(s.Node).Owners
	for key, value := range s.Node.Labels {
		if slices.ContainsFunc(owners[key], func(manager string) bool { return slices.Contains(kubelets(), manager) }) {
			labels[key] = value
		}
	}
	return labels
}
