package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"nodekeep.dev/nodekeep/policy"
)

// What identifies a kubelet to the API server (Node authorization in the Kubernetes documentation).
const (
	kubeletGroup      = "system:nodes"
	kubeletUserPrefix = "system:node:"
)

// incoming is what a decision needs of the Node that is about to be created.
type incoming struct {
	node        string
	labels      map[string]string // nil where the object has no labels map
	annotations map[string]string // nil where the object has no annotations map
	hasSpec     bool
	taints      []corev1.Taint // nil where the object has no taints list
	occasion    policy.Occasion
	size        int  // bytes of the object as it came
	selfTest    bool // the dry run that proves the inline route
	machine     policy.Machine
}

// items are the labels and taints that the object came with.
func (in incoming) items() map[string]string { return policy.Items(in.labels, in.taints) }

// partialNode is the part of a Node that is decoded; its status, most of it, is passed over.
type partialNode struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec *struct {
		Taints []corev1.Taint `json:"taints"`
	} `json:"spec"`
}

// errNotOurs says that a request is not the CREATE of a Node with a name.
var errNotOurs = errors.New("not the creation of a named Node")

// decode reads a request; an error means that there is nothing to decide on.
func decode(request *admissionv1.AdmissionRequest) (incoming, error) {
	if request.Operation != admissionv1.Create || request.Kind.Group != "" || request.Kind.Kind != "Node" || request.SubResource != "" {
		return incoming{}, errNotOurs
	}
	var node partialNode
	if err := kjson.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, &node); err != nil {
		return incoming{}, fmt.Errorf("decode node: %w", err)
	}
	if node.Metadata.Name == "" { // also with generateName, which is resolved after mutating admission
		return incoming{}, errNotOurs
	}
	in := incoming{
		node:        node.Metadata.Name,
		labels:      node.Metadata.Labels,
		annotations: node.Metadata.Annotations,
		occasion:    occasionOf(request.UserInfo),
		size:        len(request.Object.Raw),
		selfTest:    node.Metadata.Name == SelfTestNode && request.DryRun != nil && *request.DryRun,
	}
	if node.Spec != nil {
		in.hasSpec, in.taints = true, node.Spec.Taints
	}
	return in, nil
}

// machineOf reads what identifies the machine; only for policies that ask, since it decodes the whole status.
func machineOf(request *admissionv1.AdmissionRequest) policy.Machine {
	var node struct {
		Spec struct {
			ProviderID string `json:"providerID"`
		} `json:"spec"`
		Status struct {
			NodeInfo struct {
				SystemUUID string `json:"systemUUID"`
				MachineID  string `json:"machineID"`
			} `json:"nodeInfo"`
		} `json:"status"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, &node) != nil {
		return policy.Machine{} // as good as unknown
	}
	return policy.Machine{ProviderID: node.Spec.ProviderID, SystemUUID: node.Status.NodeInfo.SystemUUID, MachineID: node.Status.NodeInfo.MachineID}
}

// occasionOf tells whether NodeRestriction will judge the request as a kubelet's. Either sign is enough: to defer a label
// without need costs a moment, to put one in without leave costs the registration.
func occasionOf(user authenticationv1.UserInfo) policy.Occasion {
	if slices.Contains(user.Groups, kubeletGroup) || strings.HasPrefix(user.Username, kubeletUserPrefix) {
		return policy.CreateByKubelet
	}
	return policy.CreateByOther
}
