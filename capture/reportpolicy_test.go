package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	eventrecord "k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/policy"
)

// fixedObject is a NodePolicy as a process knows it.
type fixedObject struct {
	uid      types.UID
	manifest string
	err      error
}

func (f *fixedObject) UID() types.UID   { return f.uid }
func (f *fixedObject) Accepted() []byte { return []byte(f.manifest) }
func (f *fixedObject) Err() error       { return f.err }

// aboutRecorder keeps what Events are about.
type aboutRecorder struct {
	eventrecord.EventRecorder
	about   []runtime.Object
	reasons []string
}

func (r *aboutRecorder) Eventf(about runtime.Object, _, reason, _ string, _ ...any) {
	r.about, r.reasons = append(r.about, about), append(r.reasons, reason)
}

func TestEventsAboutThePolicyAreAboutTheNodePolicy(t *testing.T) {
	events := &aboutRecorder{}
	object := &fixedObject{uid: "u"}
	w := newCluster(t, "")
	r := w.replica(func(o *Options) { o.Events, o.PolicySource = events, object })
	bad := policy.FileErrors{{Message: "spec.labels.keep: wrong"}}
	r.ReportPolicy(bad)
	assert.Empty(t, events.reasons, "the leader says it")
	object.err = bad
	r.Lead()
	require.Equal(t, []string{PolicyInvalid}, events.reasons, "also what happened before")
	assert.Equal(t, &corev1.ObjectReference{APIVersion: "nodekeep.dev/v1alpha1", Kind: "NodePolicy", Name: "default", UID: "u"}, events.about[0])
	object.uid = ""
	r.ReportPolicy(bad)
	require.Equal(t, []string{PolicyInvalid, PolicyInvalid}, events.reasons)
	assert.Equal(t, &corev1.ObjectReference{APIVersion: "nodekeep.dev/v1alpha1", Kind: "NodePolicy", Name: "default"}, events.about[1])
}
