package webhook_test

import (
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
	stamp := policy.NewStamp([]string{"dedicated"}, nil).String()
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

			after := requireSafe(t, request, h.review(t, bodyOf(t, request)))

			result := typed(t, after)
			assert.Equal(t, map[string]string{"dedicated": "ci"}, result.Labels, "the label does not depend on the stamp")
			assert.Empty(t, result.Spec.Taints, "nor does the gate")
			assert.Empty(t, apivalidation.ValidateAnnotations(result.Annotations, nil))
			if test.stamped {
				assert.Equal(t, stamp, result.Annotations[policy.StampAnnotation])
			} else {
				assert.NotContains(t, result.Annotations, policy.StampAnnotation)
			}
			requireSettled(t, h, request, after)
		})
	}
}

// etcd refuses objects of more than 1.5 MiB, and with the object the Node. What is missing waits behind the gate.
func TestNodeTooLargeGetsNoLabelsButTheGate(t *testing.T) {
	tests := map[string]struct {
		remembered map[string]string
		gated      bool
	}{
		"with something to restore":                {remembered: map[string]string{"dedicated": "ci"}, gated: true},
		"with a label that kubelets may not carry": {remembered: map[string]string{"node-role.kubernetes.io/worker": ""}, gated: true},
		"with nothing to restore":                  {remembered: map[string]string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHook((&records{}).remember(t, test.remembered), policy.Default())
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: worker, Annotations: map[string]string{policy.StampAnnotation: "forged"}}}
			node.Status.NodeInfo.OSImage = strings.Repeat("x", 1<<20)
			request := creation(byKubelet(), marshal(t, node))

			after := requireSafe(t, request, h.review(t, bodyOf(t, request)))

			result := typed(t, after)
			assert.Empty(t, result.Labels)
			assert.Equal(t, test.gated, policy.DefaultGate.Holds(result.Spec.Taints))
			assert.NotContains(t, result.Annotations, policy.StampAnnotation, "nothing is claimed, and no claim is let through")
			assert.Equal(t, 1, h.count(t, reviewsTotal, "too_large"))
			assert.Zero(t, h.count(t, labelsTotal, "restored"))
		})
	}
}
