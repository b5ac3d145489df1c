//go:build oldcore

package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func TestWhatIsForgottenIsNowhereInTheRecordAndTheRestIsAsItWas(t *testing.T) {
	value := "later"
	tenant := corev1.Taint{Key: "tenant", Value: "blue", Effect: corev1.TaintEffectNoSchedule}
	before := store.Record{
		Node: "n1", UID: "1", Items: labels{"a": "1", "b": "2", "tenant:NoSchedule": "blue"}, Later: map[string]*string{"a": &value, "c": nil},
		Withheld: store.Withheld{Items: labels{"a": "0", "b": "0"}}, RuleClaims: []corev1.Taint{tenant}, RuleTaints: []corev1.Taint{{Key: "r", Effect: "NoSchedule"}},
	}
	after := Forget(before, []string{"a", "tenant:NoSchedule"}, []string{"b"}, store.Cause{Actor: "somebody", Time: metav1.NewTime(now)})
	assert.Equal(t, labels{"b": "2"}, after.Items)
	assert.Equal(t, map[string]*string{"c": nil}, after.Later)
	assert.Empty(t, after.Withheld.Items)
	assert.Empty(t, after.RuleClaims)
	assert.Equal(t, before.RuleTaints, after.RuleTaints)
	assert.Equal(t, []corev1.Taint{tenant}, after.FormerTaints, "a registration may still restore it from the record as it was")
	assert.Equal(t, labels{"a": "1", "b": "2", "tenant:NoSchedule": "blue"}, before.Items, "what was read is shared with others")
	assert.Len(t, before.Withheld.Items, 2)
	require.Len(t, after.History, 1)
	assert.Equal(t, "somebody", after.History[0].Actor)
	assert.Len(t, after.History[0].Items, 2, "what was remembered and is no more; of b the value that is on the Node is")
}

// What a tool notes is what the look at a deletion writes, and capture goes on from there.
func TestWhatIsNotedOfANodeThatLivesIsAdoptedByCaptureAndLosesNoEndOfAnOlderObject(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2", ResourceVersion: "9", Labels: labels{"a": "1", "new": ""}}}
	before := remembered("1", "5", labels{"a": "1"})
	noted := Noted(before, node, false, policy.Default(), now)
	require.NotNil(t, noted)
	assert.Equal(t, before.UID, noted.UID, "the end of that object may still come")
	assert.Equal(t, labels{"a": "1", "new": ""}, noted.Remembered())
	assert.Nil(t, Noted(noted, node, false, policy.Default(), now), "a second time there is nothing to write")

	end := nodeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "7", Labels: labels{"a": "1", "late": "edit"}}})
	ended := plan(noted, end, Deleted, policy.Default(), now)
	require.NotNil(t, ended.Write)
	assert.Equal(t, labels{"a": "1", "late": "edit", "new": ""}, ended.Write.Remembered())
	assert.Nil(t, node.DeletionTimestamp, "the Node is not changed")
	assert.Equal(t, Adopt, Next(noted, node, false, policy.Default(), now).Step)

	first := Noted(nil, node, false, policy.Default(), now)
	require.NotNil(t, first)
	assert.True(t, first.Early, "an older object's end is still to be counted")
	assert.Nil(t, Noted(nil, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2", ResourceVersion: "9"}}, false, policy.Default(), now), "there is nothing to remember")
}
