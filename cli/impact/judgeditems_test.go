package impact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestWhatIsKeptIsListedByDomainAndManagersAndFirstWhatNoClientOfOperatorsSet(t *testing.T) {
	plural := func(pattern string, count int) (keys []string) {
		for i := range count {
			keys = append(keys, fmt.Sprintf(pattern, i))
		}
		return keys
	}
	zone := "topology.kubernetes.io/zone"
	for name, c := range map[string]struct {
		policy   string
		managers map[string][]string // with the keys that they set
		record   map[string]record.Owners
		want     []string
		notKept  []string
	}{
		"90 labels of a vendor are one": {
			managers: map[string][]string{"vendor-agent": plural("gpu.example.com/f-%02d", 90), "kubectl-label": {"dedicated"}},
			want: []string{
				"gpu.example.com/* (90 keys) by vendor-agent: unexpected",
				"dedicated by kubectl-label: labels.keep has *",
			},
		},
		"so are those of its subdomains": {
			managers: map[string][]string{"vendor-agent": append(plural("a.node.example.com/%d", 2), plural("b.node.example.com/%d", 2)...)},
			want:     []string{"*.node.example.com/* (4 keys) by vendor-agent: unexpected"},
		},
		"and of the domain itself": {
			managers: map[string][]string{"kubectl": append(plural("a.example.com/%d", 2), plural("example.com/%d", 2)...)},
			want:     []string{"*example.com/* (4 keys) by kubectl: labels.keep has *"},
		},
		"those of other managers are not": {
			managers: map[string][]string{"vendor-agent": plural("example.com/a-%d", 4), "kubectl": plural("example.com/b-%d", 4)},
			want: []string{
				"example.com/* (4 keys) by vendor-agent: unexpected",
				"example.com/* (4 keys) by kubectl: labels.keep has *",
			},
		},
		"a few are listed one by one": {
			managers: map[string][]string{"kubectl": plural("example.com/%d", 3)},
			want:     []string{"example.com/0 by kubectl: labels.keep has *", "example.com/1 by kubectl: labels.keep has *", "example.com/2 by kubectl: labels.keep has *"},
		},
		"so are domains of Kubernetes": {
			managers: map[string][]string{"kubectl": {"node-role.kubernetes.io/a", "node-role.kubernetes.io/b", zone, "topology.kubernetes.io/region"}},
			want: []string{
				"node-role.kubernetes.io/a by kubectl: labels.keep has *", "node-role.kubernetes.io/b by kubectl: labels.keep has *",
				"topology.kubernetes.io/region by kubectl: managedFields show only kubectl, a client of operators",
				"topology.kubernetes.io/zone by kubectl: managedFields show only kubectl, a client of operators",
			},
		},
		"keys without a domain are one only where there are very many": {
			managers: map[string][]string{"kubectl": plural("k-%02d", 21)},
			want:     []string{"* (21 keys without a domain) by kubectl: labels.keep has *"},
		},
		"two managers of which one is an operator's client": {
			managers: map[string][]string{"kubectl": {"a"}, "vendor-agent": {"a"}},
			want:     []string{"a by kubectl,vendor-agent: labels.keep has *"},
		},
		"two managers of which none is": {
			managers: map[string][]string{"other-agent": {"a"}, "vendor-agent": {"a"}},
			want:     []string{"a by other-agent,vendor-agent: unexpected"},
		},
		"a manager that the API server has lost": {
			managers: map[string][]string{"ancient-changes": {"a"}},
			want:     []string{"a by ancient-changes: labels.keep has *"},
		},
		"a label that the policy names in full": {
			policy: "labels: {keep: [a]}", managers: map[string][]string{"vendor-agent": {"a"}},
			want: []string{"a by vendor-agent: labels.keep names it"},
		},
		"a client that the policy names as an operator's": {
			policy: "labels: {operators: [vendor-agent]}", managers: map[string][]string{"vendor-agent": {"a"}},
			want: []string{"a by vendor-agent: labels.keep has *"},
		},
		"without a manager, who set it is as the record has it": {
			managers: map[string][]string{"": {"a", "b", zone}}, record: map[string]record.Owners{"a": "Update vendor-agent", "b": "", zone: "Update kubectl"},
			want: []string{
				"a by vendor-agent: unexpected",
				"b by : labels.keep has *",
				"topology.kubernetes.io/zone by kubectl: the record has it as an operator's",
			},
		},
		"what is not kept is by owner": {
			policy:   "labels: {ignore: [pool]}",
			managers: map[string][]string{"nfd-master": plural("feature.node.kubernetes.io/%d", 5), "kubelet": {"kubernetes.io/hostname"}, "kubectl": {"pool"}},
			want:     []string{},
			notKept: []string{
				"kubernetes.io/hostname: it belongs to the kubelet", "pool: labels.ignore has pool",
				"feature.node.kubernetes.io/* (5 keys): managedFields show only nfd-master, which sets it again by itself",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Present("worker-1", map[string]string{})
			items := map[string]string{}
			for manager, keys := range c.managers {
				for _, key := range keys {
					s.Node.Labels[key] = "1"
				}
				if manager != "" {
					s.Node.ManagedFields = append(s.Node.ManagedFields, statetest.EntryOf(manager, keys...))
				}
			}
			for key := range c.record {
				items[key] = "1"
			}
			s.Record = statetest.Recorded(items)
			for i, e := range s.Record.Entries {
				s.Record.Entries[i].Owners = c.record[e.Key]
			}
			judged := JudgedItems{}
			for _, node := range []string{"worker-1", "worker-2"} {
				judged.Add(node, s.Judge(statetest.Under(statetest.Load(t, c.policy))))
			}
			got := []string{}
			for _, item := range judged.Kept() {
				reason := item.Reason
				if item.Unexpected {
					reason = "unexpected"
				}
				got = append(got, fmt.Sprintf("%s by %s: %s", item.Name(), strings.Join(item.Managers, ","), reason))
				assert.Equal(t, NodeCount{2, []string{"worker-1", "worker-2"}}, item.NodeCount)
				assert.Equal(t, item.Keys[0]+"=1", item.Example)
			}
			assert.Equal(t, c.want, got)
			var notKept []string
			for _, item := range judged.NotKept() {
				notKept = append(notKept, item.Name()+": "+item.Reason)
			}
			assert.Equal(t, c.notKept, notKept)
		})
	}
}

func TestTaintsAreListedOneByOneAndNobodyIsKnownToHaveSetThem(t *testing.T) {
	s := statetest.Present("worker-1", nil, statetest.Taint("example.com/a", "1"), statetest.Taint("example.com/b", ""), statetest.Taint("example.com/c", ""), statetest.Taint("example.com/d", ""), statetest.Taint("node.kubernetes.io/not-ready", ""))
	s.Node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "vendor-agent", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)}}
	judged := JudgedItems{}
	judged.Add("worker-1", s.Judge(statetest.Under(statetest.Load(t, ""))))
	kept := judged.Kept()
	require.Len(t, kept, 4)
	item := NodeCount{1, []string{"worker-1"}}
	assert.Equal(t, JudgedItem{Item: "example.com/a:NoSchedule", Keys: []string{"example.com/a:NoSchedule"}, Reason: "taints.keep has *", Example: "example.com/a=1:NoSchedule", NodeCount: item}, kept[0])
	assert.Equal(t, []JudgedItem{{
		Item: "node.kubernetes.io/not-ready:NoSchedule", Keys: []string{"node.kubernetes.io/not-ready:NoSchedule"},
		Reason: "it belongs to the node lifecycle controller", Example: "node.kubernetes.io/not-ready:NoSchedule", NodeCount: item,
	}}, judged.NotKept())
}

func TestWhatIsListedIsBoundedHoweverManyKeysThereAre(t *testing.T) {
	c := NewComparison(statetest.Under(statetest.Load(t, "")), statetest.Load(t, ""), policy.NoRules, nil, nil)
	for i := range mostItems + 7 {
		require.NoError(t, c.Add(statetest.Present("worker-1", map[string]string{fmt.Sprintf("d-%d.example-%d.com/a", i, i): "1"})))
	}
	assert.Len(t, c.Impact().Kept, mostItems)
	assert.Equal(t, 7, c.Impact().MoreKept)
}
