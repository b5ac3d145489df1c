package differential

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/random"
)

// What the test knows of nodekeep's data, in its own words.
const (
	stampAnnotation = "nodekeep.dev/restored"
	recordSelector  = "nodekeep.dev/record=true"
	recordKey       = "record.json"
)

// record is what the test reads of a record.
type record struct {
	Node     string            `json:"node"`
	UID      types.UID         `json:"uid"`
	Labels   map[string]string `json:"labels"`
	NotShown struct {
		Labels map[string]string `json:"labels"`
	} `json:"notShown"`
	DeletedAt *string `json:"deletedAt"`

	version string // of its ConfigMap
	text    string
}

// remembers returns what a Node would get, whether the newest object shows it or not.
func (r record) remembers() map[string]string {
	all := map[string]string{}
	for _, key := range allKeys() {
		if value, ok := r.NotShown.Labels[key]; ok {
			all[key] = value
		}
		if value, ok := r.Labels[key]; ok {
			all[key] = value
		}
	}
	return all
}

func parseRecord(cm *corev1.ConfigMap) (record, error) {
	r := record{version: cm.ResourceVersion, text: cm.Data[recordKey]}
	if err := json.Unmarshal([]byte(r.text), &r); err != nil {
		return record{}, fmt.Errorf("parse record %q: %w", cm.Name, err)
	}
	return r, nil
}

// readRecord reads the record of a Node; the zero record stands for none.
func readRecord(ctx context.Context, admin kubernetes.Interface, node string) (record, error) {
	cm, err := admin.CoreV1().ConfigMaps(harness.Namespace).Get(ctx, "node."+node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read record of node %q: %w", node, err)
	}
	return parseRecord(cm)
}

// stampLists reports whether the Node's stamp says that the label was on it from its CREATE on.
func stampLists(node *corev1.Node, key string) bool {
	var stamp struct {
		Given   map[string]any `json:"given"`
		Brought map[string]any `json:"brought"`
	}
	_ = json.Unmarshal([]byte(node.Annotations[stampAnnotation]), &stamp) // no stamp, or none that can be read, lists nothing
	_, given := stamp.Given[key]
	_, brought := stamp.Brought[key]
	return given || brought
}

// ours returns the labels of a Node that scripts are about.
func ours(node *corev1.Node) map[string]string { return random.Labels(node, allKeys()) }
