package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
)

func TestThatARecordVanishedIsSaidOnceAndOnlyOfANodeThatLivesAndHadOne(t *testing.T) {
	s := newObservations(func([]corev1.Taint) bool { return false }, func(time.Duration) {}, time.Now)
	s.hasRecord("unseen", false)
	assert.False(t, s.lostRecord("unseen"), "no such Node")
	s.lives(observe.SlimOf(&observe.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}}))
	assert.False(t, s.lostRecord("n"), "its first record is still to come")
	s.hasRecord("n", false)
	assert.True(t, s.lostRecord("n"))
	assert.False(t, s.lostRecord("n"), "it was said")
	s.hasRecord("n", false)
	s.went(observe.SlimOf(&observe.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}}))
	s.settled("n", "1")
	s.lives(observe.SlimOf(&observe.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "2"}}))
	assert.False(t, s.lostRecord("n"), "the Node was deleted, and its record may be deleted since")
}
