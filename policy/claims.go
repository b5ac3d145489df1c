package policy

import (
	"encoding/json"
	"strings"

	"nodekeep.dev/nodekeep/record"
)

// Annotations by which a component says on the Node itself which labels are its own.
const (
	// featureLabels lists what Node Feature Discovery made, separated by commas. A name without a prefix is under featureDomain
	// (FeatureLabelsAnnotation in its api/nfd/v1alpha1).
	featureLabels = "nfd.node.kubernetes.io/feature-labels"
	featureDomain = "feature.node.kubernetes.io"
	// machineLabels lists what Cluster API copied from the Machine, separated by commas (LabelsFromMachineAnnotation in its
	// api/core).
	machineLabels = "cluster.x-k8s.io/labels-from-machine"
	// machineTaints lists the taints that Cluster API copied from the Machine. They are as kubectl writes them, separated by commas. The
	// value and the effect may be missing (TaintsFromMachineAnnotation in its api/core).
	machineTaints = "cluster.x-k8s.io/taints-from-machine"
	// JSON lists of the keys that the machine configuration of Talos sets (pkg/machinery/constants).
	talosLabels      = "talos.dev/owned-labels"
	talosTaints      = "talos.dev/owned-taints"
	talosAnnotations = "talos.dev/owned-annotations"
)

// maxClaims bounds how many claims of one annotation are read: a kubelet can write annotations.
const maxClaims = 1000

// Claimed lists the label keys that ownership annotations claim for other components; nil where there are none.
// Remembering one would bring back what its owner has since dropped.
func Claimed(annotations map[string]string) []string {
	var keys []string
	for _, key := range listed(annotations[featureLabels]) {
		if domainOf(key) == "" {
			key = featureDomain + "/" + key
		}
		keys = append(keys, key)
	}
	return append(keys, listed(annotations[machineLabels])...)
}

func listed(value string) (items []string) {
	for item := range strings.SplitSeq(Text(value), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Claim is what an annotation says of a label, a taint or an annotation: that a component sets it. Operators see it. But nodekeep still
// keeps the item.
type Claim struct {
	Owner      string // for users
	Annotation string
	item       string // an item; a taint without an effect, as "key:", stands for each effect
}

// Covers reports whether the claim is about an item.
func (c Claim) Covers(item string) bool {
	return item == c.item || strings.HasSuffix(c.item, ":") && strings.HasPrefix(item, c.item)
}

// Claims lists what Cluster API and Talos set, according to annotations of a Node. A claim does not leave the item out of the record; see
// [Claimed] for those that do.
func Claims(annotations map[string]string) (claims []Claim) {
	add := func(owner, annotation string, items []string, itemOf func(string) string) {
		for _, item := range items[:min(len(items), maxClaims)] {
			claims = append(claims, Claim{Owner: owner, Annotation: annotation, item: itemOf(item)})
		}
	}
	add("Cluster API", machineTaints, listed(annotations[machineTaints]), func(text string) string { return record.TaintKey(parseTaint(text)) })
	add("Talos", talosLabels, listedJSON(annotations[talosLabels]), func(key string) string { return key })
	add("Talos", talosTaints, listedJSON(annotations[talosTaints]), func(key string) string { return key + ":" })
	add("Talos", talosAnnotations, listedJSON(annotations[talosAnnotations]), record.AnnotationKey)
	return claims
}

func listedJSON(value string) (items []string) {
	if json.Unmarshal([]byte(Text(value)), &items) != nil {
		return nil
	}
	return items
}
