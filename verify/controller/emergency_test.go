package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// suspends declares or ends an emergency, as a process follows it.
func (b *bed) suspends(c *Controller, emergency bool) {
	b.mu.Lock()
	b.profiles.Suspended = emergency
	b.mu.Unlock()
	c.EnqueueAll()
}

func TestAnEmergencyOpensEveryNodeAndItsEndFindsEachInItsProfile(t *testing.T) {
	b := newBed(t)
	names := b.verifiedNodes(3)
	c, stop := b.process()
	defer stop()
	b.register("waits", silent)
	b.waitFor("a worker Pod must run", func() bool { return len(b.podList()) == 1 })

	b.suspends(c, true)
	b.register("new", passes)
	for _, name := range []string{"waits", "new"} {
		b.waitFor(name+" must be opened", func() bool { return len(b.node(name).Spec.Taints) == 1 })
		assert.NotContains(t, b.node(name).Labels, verify.Label, "nobody has checked it")
		assert.Equal(t, verify.VerdictNotSelected, b.progress(name).Last.Result)
	}
	b.waitFor("its worker Pod must be deleted", b.noPods)
	pods := len(b.pods)
	b.change("n0", func(node *corev1.Node) { node.Annotations[verify.RequestAnnotation] = "1" }) // each is an event in the emergency
	b.change("n1", unlabel)
	b.change("n2", func(node *corev1.Node) { node.Labels["a"] = "b" })
	b.register("last", passes)
	b.waitFor("last must be opened", func() bool { return len(b.node("last").Spec.Taints) == 1 })
	for _, name := range names {
		assert.Empty(t, b.node(name).Spec.Taints, name)
	}
	assert.Len(t, b.pods, pods, "nothing is checked")

	b.suspends(c, false)
	b.waitFor("what was due meanwhile must be done", func() bool {
		return b.progress("n0").Round == 2 && b.progress("n1").Round == 2 && b.node("n1").Labels[verify.Label] == "true"
	})
	assert.Equal(t, 1, b.progress("n2").Round, "nobody has asked for it")
	for _, name := range []string{"waits", "new", "last"} {
		assert.Len(t, b.node(name).Spec.Taints, 1, "%s stays open, until an operator has it checked", name)
	}
	object, ok, err := c.nodes.GetStore().GetByKey("n2")
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, "all", object.(*node).profile)
	assert.Equal(t, 6, c.standing.room(object.(*node), "all", c.Now()).Selected, "rechecks count every Node of the profile")
}
