package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestGate(t *testing.T) {
	candidate := corev1.Taint{Key: "maintenance", Value: "disk", Effect: corev1.TaintEffectNoExecute}
	lookalike := corev1.Taint{Key: "nodekeep.dev/restoring-x", Effect: corev1.TaintEffectNoSchedule}
	withValue := corev1.Taint{Key: string(DefaultGate), Value: "true", Effect: corev1.TaintEffectNoSchedule}
	evicting := corev1.Taint{Key: string(DefaultGate), Effect: corev1.TaintEffectNoExecute}
	preference := corev1.Taint{Key: string(DefaultGate), Effect: corev1.TaintEffectPreferNoSchedule}
	tests := map[string]struct {
		taints       []corev1.Taint
		gated, holds bool
		rest         []corev1.Taint
	}{
		"no taints":                         {nil, false, false, nil},
		"another taint is no gate":          {[]corev1.Taint{candidate}, false, false, []corev1.Taint{candidate}},
		"a longer key is no gate":           {[]corev1.Taint{lookalike}, false, false, []corev1.Taint{lookalike}},
		"the gate alone":                    {[]corev1.Taint{DefaultGate.Taint()}, true, true, []corev1.Taint{}},
		"the gate with a value is the gate": {[]corev1.Taint{withValue}, true, true, []corev1.Taint{}},
		"a mere preference does not hold":   {[]corev1.Taint{preference}, true, false, []corev1.Taint{}},
		"every copy goes, the others stay":  {[]corev1.Taint{DefaultGate.Taint(), candidate, evicting, lookalike, preference}, true, true, []corev1.Taint{candidate, lookalike}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			prev := append([]corev1.Taint(nil), tt.taints...)
			assert.Equal(t, tt.gated, DefaultGate.Present(tt.taints))
			assert.Equal(t, tt.holds, DefaultGate.Holds(tt.taints))
			assert.Equal(t, tt.rest, DefaultGate.RemoveFrom(tt.taints))
			assert.Equal(t, prev, tt.taints, "the taints that were given are the caller's")
		})
	}
}
