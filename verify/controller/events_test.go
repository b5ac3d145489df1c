package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/logged"
	"nodekeep.dev/nodekeep/verify"
)

func TestABadReportIsInconclusiveAndLoggedOnceForEachNode(t *testing.T) {
	var log logged.Buffer
	b := newBed(t)
	b.log = &log
	hostile := map[string]string{
		"n1": "garbage", "n2": `{"results":[{"check":"dns","outcome":"passed","required":true,"millis":1}],"taint":"none"}`, "n3": strings.Repeat("[", 4000),
		"n4": `{"results":[{"check":"other","outcome":"passed","required":true,"millis":1}]}`, "n5": "\x00\xff\n level=ERROR forged=line",
	}
	for name, report := range hostile {
		b.register(name, report)
	}
	c, stop := b.process()
	defer stop()
	for name := range hostile {
		b.waitFor("each Node must be tried again and again", func() bool { return b.progress(name).Attempts >= 3 })
		last := b.progress(name).Last
		assert.Equal(t, verify.VerdictInconclusive, last.Result, name)
		assert.False(t, isOpen(b.node(name)), name)
	}
	lines := log.Lines("a worker's report cannot be used")
	assert.Len(t, lines, len(hostile), "%s", lines)
	for name := range hostile {
		assert.Len(t, log.Lines("logged once for each Node\" node="+name+" "), 1, name)
	}
	b.waitFor("each one counts", func() bool {
		return series(t, c.Metrics.verdicts, "nodekeep_verify_verdicts_total", "all", string(verdictBadReport)) >= float64(3*len(hostile))
	})
	assert.Zero(t, series(t, c.Metrics.verdicts, "nodekeep_verify_verdicts_total", "all", string(verify.VerdictFailed)))
}

// event waits for the next Event of a Node that has a text, past others.
func (b *bed) event(text string) string {
	b.t.Helper()
	for {
		select {
		case event := <-b.events.Events:
			if strings.Contains(event, text) {
				return event
			}
		case <-time.After(settles):
			b.t.Fatalf("no Event says %s", text)
		}
	}
}

func TestTheEndOfEachVerificationIsShownAndCounted(t *testing.T) {
	b := newBed(t)
	b.use(func(profile *verify.Profile) { profile.Deadline, profile.OnTimeout = "1h", verify.Release })
	for _, name := range []string{"released", "unselected", "untainted", "verified"} {
		b.register(name, refuses)
	}
	c, stop := b.process()
	defer stop()
	ended := func(verdict verify.Verdict) float64 {
		return series(t, c.Metrics.verdicts, "nodekeep_verify_verdicts_total", "all", string(verdict))
	}
	for _, name := range []string{"released", "unselected", "untainted", "verified"} {
		b.waitFor("an attempt must fail", func() bool { return b.progress(name).Attempts >= 1 })
	}
	assert.Contains(t, b.event(VerificationFailed), "Warning VerificationFailed Attempt 1 of profile all did not pass: a required check failed: dns (Timeout): no answer; nodekeep tries again by itself; ")
	assert.Contains(t, b.event(VerificationStuck), "Warning VerificationStuck Attempt 2 of profile all did not pass: a required check failed: dns (Timeout): no answer; nodekeep tries again by itself; ")

	b.say("verified", passes)
	assert.Equal(t, "Normal Verified The checks of profile all passed: the taint was removed", b.event(" Verified "))
	b.change("unselected", func(node *corev1.Node) { node.Labels = map[string]string{"pool": "none"} })
	assert.Equal(t, "Normal VerificationEnded The Node is not verified any more: no profile selects the Node", b.event(VerificationEnded))
	b.change("untainted", func(node *corev1.Node) { node.Spec.Taints = node.Spec.Taints[1:] })
	assert.Contains(t, b.event(VerificationEnded), "Normal VerificationEnded The Node is not verified any more: ")
	b.pass(2 * time.Hour)
	c.EnqueueAll()
	assert.Contains(t, b.event(VerificationReleased), "Warning VerificationReleased The taint was removed: the Node was opened without passed checks: ")
	b.waitFor("it must be without the taint", func() bool { return len(b.node("released").Spec.Taints) == 1 })
	assert.NotContains(t, b.node("released").Labels, verify.Label)
	for verdict, times := range map[verify.Verdict]float64{verify.VerdictReleased: 1, verify.VerdictRemoved: 1} {
		b.waitFor("it must be counted", func() bool { return ended(verdict) == times })
	}
}
