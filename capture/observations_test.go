package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
)

func TestThatARecordVanishedIsSaidOnceAndOnlyOfANodeThatLives(t *testing.T) {
	s := newObservations(func([]corev1.Taint) bool { return false }, func(time.Duration) {}, time.Now)
	n := observe.SlimOf(&observe.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}})
	s.noteRecordRemoved("unseen")
	assert.False(t, s.takeRecordRemoved("unseen"), "no such Node")
	s.observeLive(n)
	assert.False(t, s.takeRecordRemoved("n"), "its first record is still to come")
	s.noteRecordRemoved("n")
	assert.True(t, s.takeRecordRemoved("n"))
	assert.False(t, s.takeRecordRemoved("n"), "it was said")
	s.observeDeleted(n)
	s.noteRecordRemoved("n")
	assert.False(t, s.takeRecordRemoved("n"), "the Node is deleted, and a sweep may remove its record")
}
