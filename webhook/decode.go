package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
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
	// managedFields are as they came, since only few reviews need them.
	managedFields jsontext.Value
	hasSpec       bool
	taints        []corev1.Taint // nil where the object has no taints list
	cordoned      bool
	occasion      policy.Occasion
	size          int            // bytes of the object as it came
	selfTest      bool           // the dry run that proves the inline route
	machine       record.Machine // zero unless the policy uses it
	bootID        string         // empty unless the policy notes it
	facts         classify.Facts // zero unless the policy has rules for labels
}

// items returns the labels, the taints and the cordon of the object, and the annotations that the policy keeps.
func (in incoming) items(p policy.Policy) map[string]string {
	items := policy.ItemsOf(in.labels, in.taints, in.cordoned)
	for annotation, value := range in.annotations {
		if keeps, _ := p.Annotations().Keeps(annotation); keeps {
			items[record.AnnotationKey(annotation)] = value
		}
	}
	return items
}

// observed returns the Node as a plan looks at it.
func (in incoming) observed(p policy.Policy) *observe.Node {
	return &observe.Node{
		ObjectMeta: metav1.ObjectMeta{Name: in.node}, Taints: in.taints, Items: in.items(p), Machine: in.machine,
		AnnotationBytes: policy.AnnotationBytes(in.annotations), ReadAnnotations: p.Annotations(),
	}
}

// partialNode is the part of a Node that is decoded.
type partialNode struct {
	Metadata struct {
		Name          string            `json:"name"`
		Labels        map[string]string `json:"labels"`
		Annotations   map[string]string `json:"annotations"`
		ManagedFields jsontext.Value    `json:"managedFields"`
	} `json:"metadata"`
	Spec *struct {
		ProviderID    string         `json:"providerID"`
		Taints        []corev1.Taint `json:"taints"`
		Unschedulable bool           `json:"unschedulable"`
	} `json:"spec"`
	Status corev1.NodeStatus `json:"-"` // zero unless the policy looks at it
}

// DecodeReview reads an AdmissionReview; one without an error holds a request.
func DecodeReview(body []byte) (review admissionv1.AdmissionReview, err error) {
	if len(body) > usualReviewBytes && multiplies(body) {
		return review, errors.New("decode AdmissionReview: it has more strings, objects or lists than the largest Node")
	}
	if err := unmarshal(body, &review); err != nil {
		return review, fmt.Errorf("decode AdmissionReview: %w", err)
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		return review, fmt.Errorf("decode AdmissionReview: it is a %q %q", short(review.APIVersion), short(review.Kind))
	}
	if review.Request == nil {
		return review, errors.New("decode AdmissionReview: it holds no request")
	}
	return review, nil
}

// The largest review that is decoded: etcd takes no object with more of these.
const (
	mostQuotes     = 2 << 20
	mostStructures = 200_000
)

// multiplies reports whether decoding would make many bytes of each byte: thirty of one where a list holds empty taints.
func multiplies(body []byte) bool {
	return bytes.Count(body, []byte{'"'}) > mostQuotes || bytes.Count(body, []byte{'{'})+bytes.Count(body, []byte{'['}) > mostStructures
}

// ErrNotOurs says that a request is not the CREATE of a Node with a name; it passes as it is.
var ErrNotOurs = errors.New("not the creation of a named Node")

// decode reads of a request what the policy uses; an error means that there is nothing to decide on.
func decode(request *admissionv1.AdmissionRequest, p policy.Policy) (incoming, error) {
	if request.Operation != admissionv1.Create || request.Kind.Group != "" || request.Kind.Kind != "Node" || request.SubResource != "" {
		return incoming{}, ErrNotOurs
	}
	node, err := decodeNode(request.Object.Raw, p)
	if err != nil {
		return incoming{}, fmt.Errorf("decode node: %w", err)
	}
	if node.Metadata.Name == "" { // also with generateName, which is resolved after mutating admission
		return incoming{}, ErrNotOurs
	}
	in := incoming{
		node:          node.Metadata.Name,
		labels:        node.Metadata.Labels,
		annotations:   node.Metadata.Annotations,
		managedFields: node.Metadata.ManagedFields,
		occasion:      occasionOf(request.UserInfo),
		size:          len(request.Object.Raw),
		selfTest:      node.Metadata.Name == SelfTestNode && request.DryRun != nil && *request.DryRun,
	}
	providerID := ""
	if node.Spec != nil {
		in.hasSpec, in.taints, in.cordoned, providerID = true, node.Spec.Taints, node.Spec.Unschedulable, node.Spec.ProviderID
	}
	info := node.Status.NodeInfo
	if p.NotesBoots() {
		in.bootID = policy.BootOf(info)
	}
	if p.WantsMachine() {
		in.machine = policy.MachineOf(providerID, info.SystemUUID, info.MachineID)
		in.facts = classify.Facts{
			Name: policy.Text(in.node), ProviderID: policy.Text(providerID), Uninitialized: classify.Uninitialized(in.taints),
			Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, System: policy.SystemOf(info), Declared: node.Status.DeclaredFeatures,
		}
	}
	return in, nil
}

// decodeNode reads the part of a Node before its status, and of the status only what the policy uses. The status is most of a Node. The
// object was read once as part of the review and is known to be one JSON value. So the end of it need not be checked.
func decodeNode(object []byte, p policy.Policy) (node partialNode, err error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(object), asSent())
	if kind := decoder.PeekKind(); kind != '{' {
		return partialNode{}, errors.New("it is no JSON object")
	}
	left, wantsStatus := 2, p.WantsMachine() || p.NotesBoots()
	if wantsStatus {
		left++
	}
	err = members(decoder, func(name string) (proceed bool, err error) {
		left--
		switch {
		case name == "metadata":
			err = decodePart(decoder, len(object), &node.Metadata)
		case name == "spec":
			err = decodePart(decoder, len(object), &node.Spec)
		case name == "status" && wantsStatus:
			node.Status, err = readStatus(decoder, p.LabelRules(), left == 0)
		default:
			left++
			err = decoder.SkipValue()
		}
		return left > 0, err
	})
	if err != nil {
		return partialNode{}, err
	}
	return node, nil
}

// asSent returns the options for JSON as the API server sends it. A client that sends protobuf can store keys and values that are no
// UTF-8. The API server replaces such bytes, so two keys of a map can become equal. A kubelet must not hide its Node's deletion
// from the webhook by two such resources in its status.
func asSent() json.Options {
	return json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// maxPartBytes is more than the metadata or the spec of any Node has. The limit of etcd is 1.5 MiB, and JSON may need twice as much.
const maxPartBytes = 3 << 20

// decodePart reads a part of an object of that size, unless it is larger than any Node's.
func decodePart(decoder *jsontext.Decoder, size int, target any) error {
	if size <= maxPartBytes {
		return json.UnmarshalDecode(decoder, target)
	}
	part, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	if len(part) > maxPartBytes {
		return errors.New("it is larger than any Node")
	}
	return unmarshal(part, target)
}

// unmarshal reads JSON as the API server sends it: names match by case.
func unmarshal(data []byte, target any) error { return json.Unmarshal(data, target, asSent()) }

// occasionOf reports whether NodeRestriction will judge the request as a kubelet's. Either sign is enough. A label that is deferred without
// need costs a moment. A label that is set without permission costs the registration.
func occasionOf(user authenticationv1.UserInfo) policy.Occasion {
	if slices.Contains(user.Groups, kubeletGroup) || strings.HasPrefix(user.Username, kubeletUserPrefix) {
		return policy.CreateByKubelet
	}
	return policy.CreateByOther
}
