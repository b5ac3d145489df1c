package webhook

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// A stamp lists the labels that a kubelet brings and a client might have set. No kubelet can fill it by that.
func TestAStampListsTheLabelsOfItsKubelet(t *testing.T) {
	sample := map[string]string{"example.com/pool": "k", "kubernetes.io/os": "linux"}
	plural := func(count int) map[string]string {
		labels := map[string]string{}
		for i := range count {
			labels[fmt.Sprintf("l%d", i)] = "v"
		}
		return labels
	}
	recorded := record.New("n1", record.Object{UID: "before", Version: 5}, map[string]string{"example.com/pool": "client"})
	for name, c := range map[string]struct {
		labels  map[string]string
		record  record.Record
		by      policy.Occasion
		brought int
	}{
		"of a kubelet": {sample, record.Record{}, policy.CreateByKubelet, 1},
		"of a kubelet, if the record has one too":            {sample, recorded, policy.CreateByKubelet, 1},
		"of a kubelet, if a client removed one":              {sample, record.Forget(recorded, []string{"example.com/pool"}), policy.CreateByKubelet, 1},
		"of a kubelet that brings as many as there may be":   {plural(policy.MaxKubeletItems), record.Record{}, policy.CreateByKubelet, policy.MaxKubeletItems},
		"but none of one that brings more":                   {plural(policy.MaxKubeletItems + 1), record.Record{}, policy.CreateByKubelet, 0},
		"nor of one that brings more than a Node has":        {plural(100_000), record.Record{}, policy.CreateByKubelet, 0},
		"nor of another client: these are a client's labels": {sample, record.Record{}, policy.CreateByOther, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := incoming{node: "n1", labels: c.labels, occasion: c.by}
			require.Len(t, plan.Plan{}.ItemsOfCreate(in.observed(policy.Default()), c.record, policy.Default(), in.occasion), c.brought)
		})
	}
	in := incoming{node: "n1", labels: sample, occasion: policy.CreateByKubelet}
	ruled := plan.Plan{RuleLabels: map[string]record.RuleLabel{"example.com/pool": {}}}
	assert.Empty(t, ruled.ItemsOfCreate(in.observed(policy.Default()), recorded, policy.Default(), in.occasion), "a rule's value takes its place")
}

// A taint that a kubelet brings and that a controller removes each time belongs to the start of the machine.
func TestAStampListsTheTaintsThatWereRemovedBefore(t *testing.T) {
	const start = "node.gardener.cloud/critical-components-not-ready:NoSchedule"
	recorded := record.New("n1", record.Object{UID: "before", Version: 5}, map[string]string{start: ""})
	for name, c := range map[string]struct {
		record record.Record
		by     policy.Occasion
		want   map[string]string
	}{
		"one that was removed from the Node before":                  {record.Forget(recorded, []string{start}), policy.CreateByKubelet, map[string]string{start: ""}},
		"one that is recorded":                                       {recorded, policy.CreateByKubelet, map[string]string{start: ""}},
		"none that nothing is known of: it may be an operator's":     {record.Record{}, policy.CreateByKubelet, map[string]string{}},
		"none of another client, which has decided to have it again": {record.Forget(recorded, []string{start}), policy.CreateByOther, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := incoming{node: "n1", taints: []corev1.Taint{record.Taint(start, "")}, occasion: c.by}
			assert.Equal(t, c.want, plan.Plan{}.ItemsOfCreate(in.observed(policy.Default()), c.record, policy.Default(), in.occasion))
		})
	}
}
