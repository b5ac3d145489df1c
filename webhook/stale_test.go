package webhook_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

func TestRecordsThatHaveFallenBehind(t *testing.T) {
	gate, holds := policy.DefaultGate.Taint(), corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	tests := map[string]struct {
		node    string // without its braces, after the name
		records func(t *testing.T) *records

		labels      map[string]string
		annotations map[string]string
		taints      []corev1.Taint
	}{
		"what is known is restored and not stamped": {
			node:    `"metadata":{"name":"worker-1"}`,
			records: remembering(map[string]string{"dedicated": "ci"}),
			labels:  map[string]string{"dedicated": "ci"},
		},
		"the gate is not lifted": {
			node:    `"metadata":{"name":"worker-1"},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"},{"key":"maintenance","value":"disk","effect":"NoExecute"}]}`,
			records: remembering(map[string]string{"dedicated": "ci"}),
			labels:  map[string]string{"dedicated": "ci"},
			taints:  []corev1.Taint{gate, holds},
		},
		"the gate is not lifted where nothing is remembered either": {
			node:    `"metadata":{"name":"worker-1"},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}`,
			records: nothing,
			taints:  []corev1.Taint{gate},
		},
		"a forged stamp is removed": {
			node:        `"metadata":{"name":"worker-1","annotations":{"nodekeep.dev/restored":"{\"restored\":[\"dedicated\"],\"pending\":[]}","example.com/note":"x"}}`,
			records:     nothing,
			annotations: map[string]string{"example.com/note": "x"},
		},
		"the gate still goes on for a protected label": {
			node:    `"metadata":{"name":"worker-1"},"spec":{"taints":[{"key":"maintenance","value":"disk","effect":"NoExecute"}]}`,
			records: remembering(map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""}),
			labels:  map[string]string{"dedicated": "ci"},
			taints:  []corev1.Taint{holds, gate},
		},
		"a record that cannot be read is not stamped either, and a forged stamp is removed": {
			node:    `"metadata":{"name":"worker-1","annotations":{"nodekeep.dev/restored":"{\"restored\":[\"dedicated\"],\"pending\":[]}"}},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}`,
			records: garbage,
			taints:  []corev1.Taint{gate},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			known := test.records(t)
			known.age = webhook.StaleAfter + time.Second
			h := newHook(known, policy.Default())
			request := creation(byKubelet(), []byte("{"+test.node+"}"))

			after := requireSafe(t, request, h.review(t, bodyOf(t, request)))

			node := typed(t, after)
			assert.Equal(t, test.labels, node.Labels)
			assert.Equal(t, test.taints, node.Spec.Taints)
			if len(test.annotations) == 0 {
				assert.Empty(t, node.Annotations)
			} else {
				assert.Equal(t, test.annotations, node.Annotations)
			}
			requireSettled(t, h, request, after)
		})
	}
}

func TestRecordsAreCurrentUntilStaleAfter(t *testing.T) {
	known := (&records{age: webhook.StaleAfter - 10*time.Second}).remember(t, map[string]string{"dedicated": "ci"})
	request := creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1","annotations":{"nodekeep.dev/restored":"x"}},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}}`))

	node := typed(t, requireSafe(t, request, newHook(known, policy.Default()).review(t, bodyOf(t, request))))

	assert.Empty(t, node.Spec.Taints)
	assert.Equal(t, policy.NewStamp([]string{"dedicated"}, nil).String(), node.Annotations[policy.StampAnnotation])
}

func remembering(labels map[string]string) func(*testing.T) *records {
	return func(t *testing.T) *records {
		t.Helper()
		return (&records{}).remember(t, labels)
	}
}

func nothing(*testing.T) *records { return &records{} }

func garbage(t *testing.T) *records {
	t.Helper()
	known := &records{}
	known.Tamper(worker, []byte("{"))
	_, err := known.Get(worker)
	require.Error(t, err)
	return known
}
