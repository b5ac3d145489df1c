package verification

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestAMissingRuntimeClassIsAnEventThatNamesItAndNoAttempt(t *testing.T) {
	warm(t)
	k := registerWith(t, "runtime-class", map[string]string{selected: "runtime"}, nil)
	require.Eventually(t, func() bool {
		events, err := nodekeep.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=VerificationWaits,involvedObject.name=" + k.name})
		return err == nil && slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return strings.Contains(event.Message, `RuntimeClass "late-class" not found`)
		})
	}, settles, 50*time.Millisecond)
	assert.Zero(t, progress(nodekeep.Node(t, k.name)).Attempts)

	classes := nodekeep.Admin.NodeV1().RuntimeClasses()
	_, err := classes.Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "late-class"}, Handler: "late"}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { nodekeepKubectl("delete", "runtimeclass", "late-class") })
	var pods []corev1.Pod
	harness.Eventually(t, func() bool {
		pods = workers(t, k.name)
		return len(pods) == 1
	}, settles, 50*time.Millisecond)
	assert.Equal(t, "late-class", *pods[0].Spec.RuntimeClassName)
	assert.Equal(t, []corev1.EnvVar{{Name: "DEVICES", Value: "8"}}, pods[0].Spec.Containers[1].Env)
}
