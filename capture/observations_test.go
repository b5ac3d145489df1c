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
	n := observe.CompactNodeOf(&observe.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}})
	s.noteVanished("unseen")
	assert.False(t, s.takeVanished("unseen"), "no such Node")
	s.observeLive(n)
	assert.False(t, s.takeVanished("n"), "its first record is still to come")
	s.noteVanished("n")
	assert.True(t, s.takeVanished("n"))
	assert.False(t, s.takeVanished("n"), "it was said")
	s.observeDeleted(n)
	s.noteVanished("n")
	assert.False(t, s.takeVanished("n"), "the Node is deleted, and a sweep may remove its record")
}
