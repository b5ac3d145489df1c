package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func TestWhatNoOperatorSetsOnANodeThatIsBeingTakenAwayIsAMarkOfTheEnd(t *testing.T) {
	cordon := wrote("kubectl-cordon", 5, "unschedulable")
	cordoned := func(node *corev1.Node) { node.Spec.Unschedulable = true }
	for name, c := range map[string]struct {
		items  labels // beyond those of the state before, which had old=1
		writes []metav1.ManagedFieldsEntry
		end    func(node *corev1.Node) // how the Node is being taken away; nil: it is not
		unseen bool                    // nodekeep has not observed this object before
		want   map[string]string
	}{
		"a label, while the Node is cordoned":                         {labels{"a": "1"}, []metav1.ManagedFieldsEntry{cordon, wrote("drainer", 3, "a")}, cordoned, false, labels{"a": "drainer"}},
		"a label, while the Node is deleted and waits for finalizers": {labels{"a": "1"}, []metav1.ManagedFieldsEntry{wrote("drainer", 3, "a")}, func(node *corev1.Node) { node.DeletionTimestamp = &metav1.Time{Time: now.Add(-4 * time.Minute)} }, false, labels{"a": "drainer"}},
		"a label and a taint, with the taint of an autoscaler":        {labels{"a": "1", "t:NoSchedule": "", "ToBeDeletedByClusterAutoscaler:NoSchedule": "1"}, []metav1.ManagedFieldsEntry{wrote("drainer", 3, "a", "taints")}, func(*corev1.Node) {}, false, labels{"a": "drainer", "t:NoSchedule": "drainer", "ToBeDeletedByClusterAutoscaler:NoSchedule": "drainer"}},
		"a taint, while the Node is cordoned":                         {labels{"t:NoSchedule": ""}, []metav1.ManagedFieldsEntry{cordon, wrote("drainer", 3, "taints")}, cordoned, false, labels{"t:NoSchedule": "drainer"}},
		"another value of a recorded label":                           {labels{"old": "2"}, []metav1.ManagedFieldsEntry{cordon, wrote("drainer", 3, "old")}, cordoned, false, labels{"old": "drainer"}},
		"a cordon of which nobody knows since when":                   {labels{"a": "1"}, []metav1.ManagedFieldsEntry{wrote("drainer", 3, "a")}, cordoned, false, labels{"a": "drainer"}},

		"a Node that stays":                                               {labels{"a": "1", "t:NoSchedule": ""}, []metav1.ManagedFieldsEntry{wrote("drainer", 3, "a", "taints")}, nil, false, nil},
		"a Node that is only a candidate":                                 {labels{"a": "1", "DeletionCandidateOfClusterAutoscaler:PreferNoSchedule": "1"}, []metav1.ManagedFieldsEntry{wrote("agent", 3, "a", "taints")}, nil, false, nil},
		"what an operator sets in that time":                              {labels{"a": "1", "t:NoSchedule": ""}, []metav1.ManagedFieldsEntry{cordon, wrote("kubectl-label", 3, "a"), wrote("kubectl-taint", 3, "taints")}, cordoned, false, nil},
		"what an operator owns, too":                                      {labels{"a": "1"}, []metav1.ManagedFieldsEntry{cordon, wrote("argocd-controller", 9, "a"), wrote("drainer", 3, "a")}, cordoned, false, nil},
		"what was set before the cordon":                                  {labels{"a": "1"}, []metav1.ManagedFieldsEntry{cordon, wrote("agent", 8, "a")}, cordoned, false, nil},
		"what the record has":                                             {labels{}, []metav1.ManagedFieldsEntry{cordon, wrote("agent", 3, "old")}, cordoned, false, nil},
		"what the kubelet sets again by itself":                           {labels{"a": "1"}, []metav1.ManagedFieldsEntry{cordon, wrote("kubelet", 3, "a")}, cordoned, false, nil},
		"what no manager owns":                                            {labels{"a": "1", "t:NoSchedule": ""}, []metav1.ManagedFieldsEntry{cordon}, cordoned, false, nil},
		"what the API server has lost the manager of":                     {labels{"a": "1", "t:NoSchedule": ""}, []metav1.ManagedFieldsEntry{cordon, wrote("ancient-changes", 3, "a", "taints")}, cordoned, false, nil},
		"a taint, and the node lifecycle controller wrote the list since": {labels{"t:NoSchedule": ""}, []metav1.ManagedFieldsEntry{cordon, wrote("kube-controller-manager", 3, "taints")}, cordoned, false, nil},
		"a taint, and nodekeep wrote the list since":                      {labels{"t:NoSchedule": ""}, []metav1.ManagedFieldsEntry{cordon, wrote(FieldManager, 3, "taints")}, cordoned, false, nil},
		"what the policy names in full":                                   {labels{"named": "1", "named:NoSchedule": ""}, []metav1.ManagedFieldsEntry{cordon, wrote("drainer", 3, "named", "taints")}, cordoned, false, nil},
		"a cordoned Node that is observed for the first time":             {labels{"a": "1"}, []metav1.ManagedFieldsEntry{cordon, wrote("agent", 3, "a")}, cordoned, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := loaded(t, "labels: {keep: ['*', named]}\ntaints: {keep: ['*', named]}")
			first := object("u", 10, labels{"old": "1"}, wrote("agent", 20, "old"))
			prev := merged(t, record.Record{}, FromNode(first), p)
			if c.unseen {
				prev = merged(t, record.Record{}, FromNode(object("other", 10, labels{"old": "1"}, wrote("agent", 20, "old"))), p)
			}
			items := labels{"old": "1"}
			for item, value := range c.items {
				items[item] = value
			}
			node := object("u", 20, items, c.writes...)
			if c.end != nil {
				c.end(node)
			}
			for from, n := range inMemory(node) {
				var by labels
				for item, mark := range n.marks(prev, p) {
					if by == nil {
						by = labels{}
					}
					by[item] = mark.By
				}
				assert.Equal(t, c.want, by, from)
			}

			next := merged(t, prev, FromNode(node), p)
			for item := range c.want {
				old, ok := prev.Items()[item]
				value, found := next.Items()[item]
				assert.Equal(t, ok, found, "%s is not recorded", item)
				assert.Equal(t, old, value, item)
			}
			node.ResourceVersion, node.Spec.Unschedulable, node.DeletionTimestamp = "30", false, nil
			node.Spec.Taints = nil
			for item, value := range c.items {
				if c.end != nil && record.IsLabel(item) && name != "what the kubelet sets again by itself" {
					assert.Equal(t, value, merged(t, next, FromNode(node), p).Items()[item], "a Node that stays after all keeps it")
				}
			}
		})
	}
}

func TestAKubeletThatForgesManagersHidesNoEditOfARecordedLabelThatItMayNotSet(t *testing.T) {
	for item, hidden := range map[string]bool{worker: false, "rack": true} { // a kubelet may set the second one itself
		prev := merged(t, record.Record{}, FromNode(object("u", 10, labels{item: "1"}, wrote("kubectl-label", 20, item))), policy.Default())
		forged := object("u", 20, labels{item: "2"}, wrote("drainer", 3, item))
		forged.Spec.Unschedulable = true // a kubelet may cordon its Node, too
		next := merged(t, prev, FromNode(forged), policy.Default())
		want := "2"
		if hidden {
			want = "1"
		}
		assert.Equal(t, want, next.Items()[item], item)
	}
}

func TestAMarkOfTheEndIsInTheHistoryOnce(t *testing.T) {
	p := policy.Default()
	r := merged(t, record.Record{}, FromNode(object("u", 10, labels{"old": "1"}, wrote("agent", 20, "old"))), p)
	node := object("u", 20, labels{"old": "2", "a": "1"}, wrote("kubectl-cordon", 5, "unschedulable"), wrote("drainer", 3, "old", "a"))
	node.Spec.Unschedulable = true
	first := merged(t, r, FromNode(node), p)
	known := history.Changes(first)
	assert.Len(t, known, 1)
	assert.Equal(t, "end:drainer", known[0].Actor)
	assert.Zero(t, known[0].Number, "it cannot be rolled back")
	assert.Equal(t, "1", *known[0].Items["old"].From)
	assert.Equal(t, "2", *known[0].Items["old"].To)
	assert.Nil(t, known[0].Items["a"].From)

	node.ResourceVersion = "21"
	reread := merged(t, first, FromNode(node), p)
	assert.Equal(t, first.History, reread.History, "no write for it at each heartbeat")

	node.UID, node.ResourceVersion, node.Spec.Unschedulable = "v", "30", false
	node.CreationTimestamp = metav1.Time{Time: now.Add(time.Minute)}
	node.Labels, node.ManagedFields = labels{"old": "1"}, nil
	next := merged(t, reread, FromNode(node), p)
	node.ResourceVersion, node.Spec.Unschedulable = "31", true
	node.Labels, node.ManagedFields = labels{"old": "2"}, []metav1.ManagedFieldsEntry{wrote("drainer", -3, "old")}
	assert.Len(t, history.Changes(merged(t, next, FromNode(node), p)), 2, "the end of another machine, by a clock that is behind")
	assert.Equal(t, labels{"old": "1"}, next.Items())
}

func TestATaintStaysAMarkWhenAnotherClientWritesTheListLater(t *testing.T) {
	const ends, operators = "example.com/ends:NoSchedule", "example.com/repair:NoSchedule"
	p := policy.Default()
	r := merged(t, record.Record{}, FromNode(object("u", 10, labels{"old": "1"}, wrote("agent", 20, "old"))), p)
	node := object("u", 20, labels{"old": "1", ends: ""}, wrote("agent", 20, "old"), wrote("kubectl-cordon", 5, "unschedulable"), wrote("drainer", 3, "taints"))
	node.Spec.Unschedulable = true
	r = merged(t, r, FromNode(node), p)
	for version, writer := range map[record.Version]string{21: "kube-controller-manager", 22: "kubectl-taint"} {
		later := object("u", version, labels{"old": "1", ends: "", operators: ""}, wrote("agent", 20, "old"), wrote("kubectl-cordon", 5, "unschedulable"), wrote(writer, 2, "taints"))
		later.Spec.Unschedulable = true
		assert.Equal(t, labels{"old": "1", operators: ""}, merged(t, r, FromNode(later), p).Items(), writer)
	}
	changed := object("u", 23, labels{"old": "1", ends: "mine"}, wrote("agent", 20, "old"), wrote("kubectl-cordon", 5, "unschedulable"), wrote("kubectl-taint", 2, "taints"))
	changed.Spec.Unschedulable = true
	assert.Equal(t, labels{"old": "1", ends: "mine"}, merged(t, r, FromNode(changed), p).Items(), "a value that an operator gives it")
}
