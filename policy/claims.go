package policy

import "strings"

// Annotations by which a component says on the Node itself which labels are its own.
const (
	// featureLabels lists what Node Feature Discovery made, separated by commas; a name without a prefix is meant to be
	// under featureDomain (FeatureLabelsAnnotation in its api/nfd/v1alpha1).
	featureLabels = "nfd.node.kubernetes.io/feature-labels"
	featureDomain = "feature.node.kubernetes.io"
	// machineLabels lists what Cluster API copied from the Machine, separated by commas (LabelsFromMachineAnnotation in its
	// api/core).
	machineLabels = "cluster.x-k8s.io/labels-from-machine"
)

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
