package webhook_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// An object of 256 KiB is built here and not kept as a golden file. One byte of annotations too many keeps a Node out.
func TestStampNeedsRoom(t *testing.T) {
	const note = "example.com/note"
	stamp := stampOf(map[string]string{"dedicated": "ci"}).String()
	room := apivalidation.TotalAnnotationSizeLimitB - len(policy.StampAnnotation) - len(stamp) - len(note)
	tests := map[string]struct {
		note    int
		came    map[string]string
		stamped bool
	}{
		"the stamp just fits":                        {note: room, stamped: true},
		"the stamp is one byte too long":             {note: room + 1},
		"there is no room at all":                    {note: apivalidation.TotalAnnotationSizeLimitB - len(note)},
		"a forged stamp makes room for ours":         {note: room, came: map[string]string{policy.StampAnnotation: strings.Repeat("x", len(stamp))}, stamped: true},
		"a forged stamp goes where ours has no room": {note: room + 1, came: map[string]string{policy.StampAnnotation: "x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: worker, Annotations: map[string]string{note: strings.Repeat("n", test.note)}}}
			for key, value := range test.came {
				node.Annotations[key] = value
			}
			node.Spec.Taints = []corev1.Taint{policy.DefaultGate.Taint()}
			h := newHook((&records{}).remember(t, map[string]string{"dedicated": "ci"}), policy.Default())
			request := creation(byKubelet(), marshal(t, node))

			tail := requireSafe(t, request, h.review(t, bodyOf(t, request)))

			result := typed(t, tail)
			assert.Equal(t, map[string]string{"dedicated": "ci"}, result.Labels, "the label does not depend on the stamp")
			assert.Empty(t, result.Spec.Taints, "nor does the gate")
			assert.Empty(t, apivalidation.ValidateAnnotations(result.Annotations, nil))
			if test.stamped {
				assert.Equal(t, stamp, result.Annotations[policy.StampAnnotation])
			} else {
				assert.NotContains(t, result.Annotations, policy.StampAnnotation)
			}
			requireSettled(t, h, request, tail)
		})
	}
}

// Rules and labels of the longest kind: the list of derived taints fits, and so does the stamp, but not both.
func TestStampAndListOfDerivedTaintsNeedRoomTogether(t *testing.T) {
	long := func(kind string, n int) string {
		return fmt.Sprintf("%s/%s%03d", strings.Repeat(kind, 253), strings.Repeat("n", 60), n)
	}
	const rules = 630
	sections := "taints:\n  rules:\n"
	for i := range rules {
		sections += fmt.Sprintf("  - {selector: dedicated, taint: %q}\n", long("r", i)+"="+strings.Repeat("v", 63)+":PreferNoSchedule")
	}
	p := load(t, sections)
	remembered := map[string]string{"dedicated": "ci"}
	for i := range 50 {
		remembered[long("l", i)] = ""
	}
	for name, protected := range map[string]bool{"nothing waits": false, "a protected label waits behind the gate": true} {
		t.Run(name, func(t *testing.T) {
			remembered := maps.Clone(remembered)
			if protected {
				remembered["node-role.kubernetes.io/worker"] = ""
			}
			h := newHook((&records{}).remember(t, remembered), p)
			request := creation(byKubelet(), marshal(t, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: worker}}))

			result := typed(t, requireSafe(t, request, h.review(t, bodyOf(t, request))))

			assert.Empty(t, apivalidation.ValidateAnnotations(result.Annotations, nil))
			assert.NotContains(t, result.Annotations, policy.StampAnnotation)
			assert.Len(t, result.Labels, 51)
			if protected {
				assert.Empty(t, result.Annotations, "capture adds the taints and lists them, before the gate goes")
				assert.Equal(t, []corev1.Taint{policy.DefaultGate.Taint()}, result.Spec.Taints)
				return
			}
			assert.Len(t, result.Spec.Taints, rules)
			assert.Len(t, policy.DerivedTaints(result.Annotations[policy.TaintsAnnotation]), rules, "what is not listed would never be removed")
		})
	}
}

// etcd refuses objects of more than 1.5 MiB, and with the object the Node. What is missing waits behind the gate.
func TestNodeTooLargeGetsNoLabelsButTheGate(t *testing.T) {
	tests := map[string]struct {
		remembered map[string]string
		taints     string // that section of the policy
		gated      bool
	}{
		"with something to restore":                {remembered: map[string]string{"dedicated": "ci"}, gated: true},
		"with a label that kubelets may not carry": {remembered: map[string]string{"node-role.kubernetes.io/worker": ""}, gated: true},
		"with a taint to restore":                  {remembered: map[string]string{"maintenance:NoExecute": "disk"}, gated: true},
		"with nothing to restore":                  {remembered: map[string]string{}},
		"with a rule that wants a taint":           {remembered: map[string]string{}, taints: `rules: [{selector: "!dedicated", taint: "dedicated=none:NoSchedule"}]`, gated: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHook((&records{}).remember(t, test.remembered), load(t, "taints: {"+test.taints+"}"))
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: worker, Annotations: map[string]string{policy.StampAnnotation: "forged", policy.TaintsAnnotation: "forged"}}}
			node.Status.NodeInfo.OSImage = strings.Repeat("x", 1<<20)
			request := creation(byKubelet(), marshal(t, node))

			tail := requireSafe(t, request, h.review(t, bodyOf(t, request)))

			result := typed(t, tail)
			assert.Empty(t, result.Labels)
			assert.Equal(t, test.gated, policy.DefaultGate.Holds(result.Spec.Taints))
			assert.Empty(t, policy.DefaultGate.RemoveFrom(result.Spec.Taints))
			assert.Empty(t, result.Annotations, "nothing is claimed, and no claim is let through")
			assert.Equal(t, 1, h.count(t, reviewsTotal, "too_large"))
			assert.Zero(t, h.count(t, itemsTotal, "label/restored"))
		})
	}
}

// Labels of rules count as an operator's where the annotation does not list them. So without room for the list they wait, and the gate with them:
// a kubelet that fills its annotations gets no Node without the taints that follow those labels.
func TestANodeWithoutRoomForTheListOfRuledLabelsWaitsForThemBehindTheGate(t *testing.T) {
	p := load(t, "labels: {rules: [{name: tier, set: {tier: gold}}]}\ntaints: {rules: [{selector: tier=gold, taint: \"tier=gold:NoSchedule\"}]}\n")
	full := policy.AnnotationBytes(map[string]string{"big": ""}) + 100
	for name, c := range map[string]struct {
		annotations map[string]string
		labels      map[string]string
		gated       bool
	}{
		"with room":    {labels: map[string]string{"tier": "gold"}},
		"without room": {annotations: map[string]string{"big": strings.Repeat("x", apivalidation.TotalAnnotationSizeLimitB-full)}, gated: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHook((&records{}).remember(t, nil), p)
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: worker, Annotations: c.annotations}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{policy.DefaultGate.Taint()}}}
			request := creation(byKubelet(), marshal(t, node))

			updated := typed(t, requireSafe(t, request, h.review(t, bodyOf(t, request))))

			assert.Equal(t, c.labels, updated.Labels)
			assert.Equal(t, c.gated, policy.DefaultGate.Present(updated.Spec.Taints))
		})
	}
}
