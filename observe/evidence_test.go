package observe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestANodeIsReadWithoutWhatNobodyReads(t *testing.T) {
	full := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "a", ResourceVersion: "7", Labels: labels{"k": "v", "mine": "x"},
			Annotations: labels{policy.StampAnnotation: given(labels{"k": "v"}).String(), "big": "value", "nfd.node.kubernetes.io/feature-labels": "f"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:k":{}}}}`)},
				{Manager: "kubectl-label", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:mine":{},"f:k":{}}}}`)},
				{Manager: FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:k":{},"f:restored":{}}}}`)},
				{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":`)},
				{Manager: "empty"},
			},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{policy.DefaultGate.Taint()}, ProviderID: "x"},
		Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"big"}}}, NodeInfo: corev1.NodeSystemInfo{SystemUUID: "s", MachineID: strings.Repeat("m", 5000)}},
	}
	for name, n := range inMemory(full) {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, labels{"k": "v", "mine": "x", "nodekeep.dev/restoring:NoSchedule": ""}, n.Items)
			assert.Equal(t, map[string][]string{"k": {"kubectl-label", "kubelet"}, "mine": {"kubectl-label"}}, n.Owners, "what nodekeep set is nobody's until a client changes it")
			assert.Equal(t, record.Machine{ProviderID: "x", SystemUUID: "s"}, n.Machine)
			assert.Equal(t, []string{"feature.node.kubernetes.io/f"}, n.Claimed)
			assert.Equal(t, record.Version(7), n.Version)
			require.NoError(t, n.Fault)
			assert.Nil(t, n.Annotations)
			assert.Nil(t, n.ManagedFields)
			assert.Nil(t, n.Labels)
			assert.Equal(t, len("big")+len("value")+len("nfd.node.kubernetes.io/feature-labels")+len("f"), n.AnnotationBytes)
		})
	}
	for _, version := range []string{"", "x", "-1", "07"} {
		full.ResourceVersion = version
		for name, n := range inMemory(full) {
			require.ErrorContains(t, n.Fault, `read resourceVersion of node "n1"`, "%s: %q", name, version)
			assert.Zero(t, n.Version, "nothing may be concluded from it")
		}
	}
}

// While the guard policies are in force, no kubelet can write the stamp, so managedFields, which it can write, do not matter.
func TestTheStampIsEvidenceAsFarAsNoKubeletCanHaveWrittenIt(t *testing.T) {
	for name, c := range map[string]struct {
		fields             []metav1.ManagedFieldsEntry
		counts, registered bool // while the guard policies are not in force
	}{
		"a webhook wrote it: it has no owner":             {nil, true, true},
		"nothing says so":                                 {[]metav1.ManagedFieldsEntry{{}}, true, true},
		"capture wrote it, it seems":                      {[]metav1.ManagedFieldsEntry{wrote(FieldManager, 1, "@"+policy.StampAnnotation)}, true, false},
		"the API server has put owners together":          {[]metav1.ManagedFieldsEntry{wrote(ancientChanges, 1, "@"+policy.StampAnnotation)}, true, false},
		"a kubelet wrote it":                              {[]metav1.ManagedFieldsEntry{wrote("kubelet", 1, "@"+policy.StampAnnotation)}, false, false},
		"a client wrote it":                               {[]metav1.ManagedFieldsEntry{wrote("kubectl-annotate", 1, "@"+policy.StampAnnotation)}, false, false},
		"capture and then a kubelet wrote it":             {[]metav1.ManagedFieldsEntry{wrote(FieldManager, 2, "@"+policy.StampAnnotation), wrote("kubelet", 1, "@"+policy.StampAnnotation)}, false, false},
		"a kubelet wrote the list of derived taints only": {[]metav1.ManagedFieldsEntry{wrote("kubelet", 1, "@"+policy.TaintsAnnotation)}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			item := stamped(object("a", 7, labels{"k": "v"}, c.fields...), given(labels{"k": "v", worker: "", "t:NoSchedule": ""}))
			for form, n := range inMemory(item) {
				stamp, ok := n.Stamp(true)
				assert.True(t, ok, form)
				assert.Len(t, stamp.Given, 3, form)
				assert.True(t, n.GotRegistrationTaints(true), form)
				assert.Empty(t, n.Observation(record.Record{}, policy.Default(), true).Unconfirmed, form)

				stamp, ok = n.Stamp(false)
				assert.Equal(t, c.counts, ok, form)
				assert.Equal(t, c.counts, len(stamp.Given) == 3, form)
				assert.Equal(t, c.registered, n.GotRegistrationTaints(false), form)
				known := record.New("n1", record.Object{UID: "a", Version: 5}, labels{"k": "v"})
				o := n.Observation(known, policy.Default(), false)
				if c.counts {
					assert.Len(t, n.Observation(record.Record{}, policy.Default(), false).Unconfirmed, 3, "%s: of what the record does not know it proves nothing", form)
					assert.Equal(t, map[string]bool{worker: true, "t:NoSchedule": true}, o.Unconfirmed, "%s: of what a kubelet may not set itself it proves nothing", form)
				} else {
					assert.Zero(t, o.Stamp, form)
					assert.Empty(t, o.Unconfirmed, form)
				}
			}
		})
	}
	for name, n := range inMemory(object("a", 7, nil)) {
		_, ok := n.Stamp(true)
		assert.False(t, ok || n.GotRegistrationTaints(true) || n.GotRegistrationTaints(false), name)
	}
}

// Without the guard policies a kubelet can claim that its Node had had a protected label or a taint, which a client then removed. With them
// the same annotation is nodekeep's.
func TestAForgedStampRemovesNothingThatAKubeletMayNotSet(t *testing.T) {
	r := remembering("a", 5, labels{"k": "v", worker: "", "t:NoSchedule": "1"})
	forged := stamped(object("b", 9, nil), record.Stamp{Brought: labels{"t:NoSchedule": "1"}}.Merge(labels{"k": "v", worker: ""}, record.Record{}, 0))
	p := policy.Default()
	for name, n := range inMemory(forged) {
		next := n.Merge(r, n.Observation(r, p, false), p, now)
		assert.Equal(t, labels{worker: "", "t:NoSchedule": "1"}, next.Items(), name)
		assert.Equal(t, labels{worker: "", "t:NoSchedule": "1"}, record.Missing(next, n.Observation(next, p, false)), "%s: it is restored", name)
		next = n.Merge(r, n.Observation(r, p, true), p, now)
		assert.Empty(t, next.Items(), "%s: with the guard policies it is evidence", name)
	}
}

// A kubelet could claim that a rule had set a label before its client set it: then the value of the rule would be the client's.
func TestSinceWhenRulesHaveLeftItemsIsBelievedWhereNoKubeletGainsByForgingIt(t *testing.T) {
	p := loaded(t, `labels: {rules: [{name: r, set: {tier: gold, `+worker+`: ""}}, {name: a, ensureAbsent: [joined, "old:NoSchedule"]}]}`)
	listed := map[string]record.RuleLabel{
		"tier": {Value: "gold", Rule: "r", Version: 3}, worker: {Rule: "r"}, "joined": {Rule: "a", Absent: true, Version: 4}, "old:NoSchedule": {Rule: "a", Absent: true},
	}
	r := remembering("a", 5, labels{worker: "mine", "old:NoSchedule": "mine", "tier": "iron"})
	r.RuleLabels = listed
	item := object("a", 7, labels{"tier": "gold", worker: ""}, wrote("kubectl-label", 1, "tier"))
	item.Annotations[policy.LabelsAnnotation] = policy.AnnotationContent{Labels: listed}.Annotations(0)[policy.LabelsAnnotation]
	for name, n := range inMemory(item) {
		o := n.Observation(r, p, true)
		assert.Equal(t, map[string]record.Version{"tier": 3, worker: 0, "joined": 4, "old:NoSchedule": 0}, o.RuleSince, name)
		assert.Equal(t, labels{"tier": "gold", worker: ""}, record.Merge(r, o).Items(), "%s: clients set them back", name)

		o = n.Observation(r, p, false)
		assert.Equal(t, map[string]record.Version{"tier": 3, "joined": 4}, o.RuleSince, name)
		assert.Equal(t, labels{"tier": "gold", worker: "mine", "old:NoSchedule": "mine"}, record.Merge(r, o).Items(), "%s: without guard policies, what no kubelet may set stays", name)
	}

	item.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kubelet", 1, "tier")}
	assert.NotContains(t, FromNode(item).Observation(r, p, true).RuleSince, "tier", "the kubelet sets it, too")

	adopted := listed["tier"]
	adopted.Adopted = true
	item.Annotations[policy.LabelsAnnotation] = policy.AnnotationContent{Labels: map[string]record.RuleLabel{"tier": adopted}}.Annotations(0)[policy.LabelsAnnotation]
	assert.Empty(t, FromNode(item).Observation(r, p, true).RuleSince, "an operator has handed it over")
}

func TestAKubeletCannotHideAProtectedLabelFromBeingRecorded(t *testing.T) {
	p := policy.Default()
	r := remembering("a", 5, labels{worker: "old", "k": "old"})
	forged := object("a", 7, labels{worker: "new", "k": "new"}, wrote("kubelet", 1, worker, "k"))
	forged.Annotations["cluster.x-k8s.io/labels-from-machine"] = worker + ",k"
	for name, n := range inMemory(forged) {
		for _, guardInForce := range []bool{true, false} {
			o := n.Observation(r, p, guardInForce)
			assert.Equal(t, record.NoOwner, o.Items[worker].Owner, name)
			assert.Equal(t, record.OtherOwner, o.Items["k"].Owner, "%s: a kubelet may set that one", name)
			next := n.Merge(r, o, p, now)
			assert.Equal(t, labels{worker: "new", "k": "old"}, next.Items(), name)
			assert.Equal(t, record.OtherOwner, n.Observation(record.Record{}, p, guardInForce).Items[worker].Owner, "%s: a label that was never recorded is its owner's", name)
		}
	}
	combined := FromNode(object("a", 7, labels{worker: "new"}, wrote("kubelet", 1, worker), wrote("kubectl-label", 1, worker)))
	assert.Equal(t, record.Client, combined.Observation(r, p, true).Items[worker].Owner)
	ignored := loaded(t, "labels: {ignore: ['"+worker+"']}")
	assert.Equal(t, record.OtherOwner, combined.Observation(r, ignored, true).Items[worker].Owner, "what the policy does not keep stays as it was recorded")
}

func TestWhoDecidesAnItem(t *testing.T) {
	n := FromNode(object("a", 7, labels{"client": "1", "restored": "1", "kubelet": "1", "kubernetes.io/hostname": "n1", "claimed": "1", "t:NoSchedule": "", "node.kubernetes.io/not-ready:NoSchedule": "", "derived:NoExecute": "1"},
		wrote("kubectl-label", 1, "client"), wrote(FieldManager, 1, "restored", "taints"), wrote("kubelet", 1, "kubelet")))
	n.Claimed = []string{"claimed"}
	n.annotations.derived = parsed("derived=1:NoExecute")
	o := n.Observation(record.Record{}, policy.Default(), true)
	assert.Equal(t, map[string]record.Item{
		"client": {Value: "1", Owner: record.Client, Owners: "Update kubectl-label"}, "restored": {Value: "1"}, "kubelet": {Value: "1", Owner: record.OtherOwner},
		"kubernetes.io/hostname": {Value: "n1", Owner: record.OtherOwner}, "claimed": {Value: "1", Owner: record.OtherOwner}, "t:NoSchedule": {},
		"node.kubernetes.io/not-ready:NoSchedule": {Owner: record.OtherOwner}, "derived:NoExecute": {Value: "1", Owner: record.Rule},
	}, o.Items)
	assert.Equal(t, record.Observation{UID: "a", Version: 7, Items: o.Items}, o)
}

func TestDerivedTaintsAreThoseThatTheAnnotationListsAndTheNodeHas(t *testing.T) {
	p := loaded(t, `taints: {rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}]}`)
	item := object("a", 7, labels{"dedicated:NoSchedule": "ci", "other:NoExecute": "", "mine:NoSchedule": "1"})
	item.Spec.Taints[0].TimeAdded = &metav1.Time{Time: now}
	item.Annotations[policy.TaintsAnnotation] = "other:NoExecute,dedicated=ci:NoSchedule,gone:NoSchedule,mine=2:NoSchedule"
	for name, n := range inMemory(item) {
		assert.Equal(t, parsed("dedicated=ci:NoSchedule", "other:NoExecute"), n.DerivedTaints(record.Record{}, p, true), name)
		assert.Equal(t, parsed("dedicated=ci:NoSchedule"), n.DerivedTaints(record.Record{}, p, false), "%s: a kubelet may have listed what no rule makes", name)
		clients := remembering("a", 5, labels{"dedicated:NoSchedule": "ci"})
		assert.Empty(t, n.DerivedTaints(clients, p, false), "%s: a client's taint does not become a derived one by the word of a kubelet", name)
		assert.Len(t, n.DerivedTaints(clients, p, true), 2, name)
		assert.Len(t, n.DerivedTaints(remembering("a", 5, labels{"dedicated:NoSchedule": "other"}), p, false), 1, name)
		assert.Len(t, n.DerivedTaints(record.Forget(clients, []string{"dedicated:NoSchedule"}), p, false), 1, "%s: the client's was removed before", name)
	}
	assert.NotNil(t, item.Spec.Taints[0].TimeAdded, "the Node itself is not changed")
	delete(item.Annotations, policy.TaintsAnnotation)
	assert.Empty(t, FromNode(item).DerivedTaints(record.Record{}, p, true))
}

func TestTheOwnersAreReadFromAnyManagedFields(t *testing.T) {
	const fields = `{"f:metadata":{"f:labels":{"f:a":{},"f:b":{},"x":{}}},"f:spec":{"f:taints":{}}}`
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    []Writer
	}{
		"none":                                {nil, nil},
		"without fields":                      {[]metav1.ManagedFieldsEntry{{Manager: "x"}}, nil},
		"no JSON":                             {[]metav1.ManagedFieldsEntry{entry("x", `{`), entry("y", `[]`), entry("z", `{"f:metadata":[]}`)}, nil},
		"labels and taints":                   {[]metav1.ManagedFieldsEntry{entry("x", fields)}, []Writer{{Manager: "x", Labels: []string{"a", "b"}, Taints: true}}},
		"in one order, however they come":     {[]metav1.ManagedFieldsEntry{entry("y", fields), entry("x", fields)}, []Writer{{Manager: "x", Labels: []string{"a", "b"}, Taints: true}, {Manager: "y", Labels: []string{"a", "b"}, Taints: true}}},
		"neither labels nor taints":           {[]metav1.ManagedFieldsEntry{entry("x", `{"f:status":{"f:conditions":{}}}`)}, nil},
		"names that are equal once made text": {[]metav1.ManagedFieldsEntry{entry("x", "{\"f:status\":{\"f:\xff\":{},\"f:\xfe\":{}},\"f:metadata\":{\"f:labels\":{\"f:a\":{}}}}")}, []Writer{{Manager: "x", Labels: []string{"a"}}}},
		"a manager that is too long":          {[]metav1.ManagedFieldsEntry{entry(strings.Repeat("ä", 100), fields)}, []Writer{{Manager: strings.Repeat("ä", 64), Labels: []string{"a", "b"}, Taints: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, ownedFieldsOf(c.entries, policy.Annotations{}).writers)
		})
	}
}
