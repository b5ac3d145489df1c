package webhook_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

const rulesAndRegistration = `rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}], register: [{taint: "node-ready/unverified:NoSchedule"}]`

func TestRecordsThatHaveFallenBehind(t *testing.T) {
	gate, holds := policy.DefaultGate.Taint(), corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	ruled := corev1.Taint{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule}
	once := corev1.Taint{Key: "node-ready/unverified", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		node    string // without its braces, after the name
		records func(t *testing.T) *records
		taints  string // that section of the policy

		labels      map[string]string
		annotations map[string]string // beside the stamp
		stamp       string
		want        []corev1.Taint
	}{
		"what is known is restored and stamped, so that it can be put right": {
			stamp:   `{"given":{"dedicated":{"value":"ci"}}}`,
			node:    `"metadata":{"name":"worker-1"}`,
			records: remembering(map[string]string{"dedicated": "ci"}),
			labels:  map[string]string{"dedicated": "ci"},
		},
		"the gate is not lifted": {
			stamp:   `{"given":{"dedicated":{"value":"ci"}}}`,
			node:    `"metadata":{"name":"worker-1"},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"},{"key":"maintenance","value":"disk","effect":"NoExecute"}]}`,
			records: remembering(map[string]string{"dedicated": "ci"}),
			labels:  map[string]string{"dedicated": "ci"},
			want:    []corev1.Taint{gate, holds},
		},
		"the gate is not lifted where nothing is remembered either": {
			stamp:   `{}`,
			node:    `"metadata":{"name":"worker-1"},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}`,
			records: nothing,
			want:    []corev1.Taint{gate},
		},
		"a forged stamp is overwritten": {
			stamp:       `{}`,
			node:        `"metadata":{"name":"worker-1","annotations":{"nodekeep.dev/restored":"{\"given\":{\"dedicated\":{\"value\":\"ci\"}}}","example.com/note":"x"}}`,
			records:     nothing,
			annotations: map[string]string{"example.com/note": "x"},
		},
		"the gate still goes on for a protected label": {
			stamp:   `{"given":{"dedicated":{"value":"ci"}}}`,
			node:    `"metadata":{"name":"worker-1"},"spec":{"taints":[{"key":"maintenance","value":"disk","effect":"NoExecute"}]}`,
			records: remembering(map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""}),
			labels:  map[string]string{"dedicated": "ci"},
			want:    []corev1.Taint{holds, gate},
		},
		"of a record that cannot be read nothing is claimed, and a forged stamp is overwritten": {
			stamp:   `{}`,
			node:    `"metadata":{"name":"worker-1","annotations":{"nodekeep.dev/restored":"{\"given\":{\"dedicated\":{\"value\":\"ci\"}}}"}},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}`,
			records: garbage,
			want:    []corev1.Taint{gate},
		},
		"a taint is restored beside the gate, and what rules and registration want": {
			stamp:       `{"given":{"maintenance:NoExecute":{"value":"disk"}}}`,
			node:        `"metadata":{"name":"worker-1","labels":{"dedicated":"ci"},"annotations":{"nodekeep.dev/taints":"dedicated=gpu:NoSchedule"}},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}`,
			records:     remembering(map[string]string{"maintenance:NoExecute": "disk"}),
			taints:      rulesAndRegistration,
			labels:      map[string]string{"dedicated": "ci"},
			annotations: map[string]string{policy.TaintsAnnotation: "dedicated=ci:NoSchedule"},
			want:        []corev1.Taint{gate, holds, ruled, once},
		},
		"what rules and registration want is put on beside a gate that goes on": {
			stamp:       `{"given":{"maintenance:NoExecute":{"value":"disk"}}}`,
			node:        `"metadata":{"name":"worker-1","labels":{"dedicated":"ci"}}`,
			records:     remembering(map[string]string{"maintenance:NoExecute": "disk", "node-role.kubernetes.io/worker": ""}),
			taints:      rulesAndRegistration,
			labels:      map[string]string{"dedicated": "ci"},
			annotations: map[string]string{policy.TaintsAnnotation: "dedicated=ci:NoSchedule"},
			want:        []corev1.Taint{holds, ruled, once, gate},
		},
		"where nothing gates the Node, the taints of rules and registration are put on, shown and stamped": {
			stamp:       `{"given":{"maintenance:NoExecute":{"value":"disk"}}}`,
			node:        `"metadata":{"name":"worker-1","labels":{"dedicated":"ci"},"annotations":{"nodekeep.dev/restored":"{\"brought\":{\"dedicated\":\"ci\"}}"}}`,
			records:     remembering(map[string]string{"maintenance:NoExecute": "disk"}),
			taints:      rulesAndRegistration,
			labels:      map[string]string{"dedicated": "ci"},
			annotations: map[string]string{policy.TaintsAnnotation: "dedicated=ci:NoSchedule"},
			want:        []corev1.Taint{holds, ruled, once},
		},
		"a record that cannot be read changes nothing about them": {
			stamp:       `{}`,
			node:        `"metadata":{"name":"worker-1","labels":{"dedicated":"ci"}},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}`,
			records:     garbage,
			taints:      rulesAndRegistration,
			labels:      map[string]string{"dedicated": "ci"},
			annotations: map[string]string{policy.TaintsAnnotation: "dedicated=ci:NoSchedule"},
			want:        []corev1.Taint{gate, ruled, once},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			known := test.records(t)
			known.age = webhook.StaleAfter + time.Second
			p, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\ntaints: {"+test.taints+"}"), policy.DefaultGate)
			require.NoError(t, err)
			h := newHook(known, p)
			request := creation(byKubelet(), []byte("{"+test.node+"}"))

			after := requireSafe(t, request, h.review(t, bodyOf(t, request)))

			node := typed(t, after)
			assert.Equal(t, test.labels, node.Labels)
			assert.Equal(t, test.want, node.Spec.Taints)
			want := map[string]string{policy.StampAnnotation: test.stamp}
			maps.Copy(want, test.annotations)
			assert.Equal(t, want, node.Annotations)
			requireSettled(t, h, request, after)
		})
	}
}

func TestRecordsAreCurrentUntilStaleAfter(t *testing.T) {
	known := (&records{age: webhook.StaleAfter - 10*time.Second}).remember(t, map[string]string{"dedicated": "ci"})
	request := creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1","annotations":{"nodekeep.dev/restored":"x"}},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}}`))

	node := typed(t, requireSafe(t, request, newHook(known, policy.Default()).review(t, bodyOf(t, request))))

	assert.Empty(t, node.Spec.Taints)
	assert.Equal(t, stampOf(map[string]string{"dedicated": "ci"}).String(), node.Annotations[policy.StampAnnotation])
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
