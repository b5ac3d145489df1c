package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Both act at once all the time, which with the election they do for a moment at most.
func TestTwoCapturesThatBothBelieveToLeadLoseNothing(t *testing.T) { twoCaptures(t, false) }

// The one capture may strike a taint out of the record by a sight without the label while the other puts the same taint on
// anew: which of them came first is for the record to say.
func TestTwoCapturesUnderALabelThatGoesAndComesBackKeepItsTaintTheirOwn(t *testing.T) {
	twoCaptures(t, true)
}

func twoCaptures(t *testing.T, flips bool) {
	t.Helper()
	underRules(t)
	captureThrough(t)
	_, second := secondCapture(t, alone)
	first := nodekeep.MetricsURL("capture")
	all := newPeople(t, "two", 8)
	defer all.forget(t)
	for _, p := range all {
		p.flips = flips
	}
	stop := all.work(20 * time.Millisecond)
	time.Sleep(6 * time.Second)
	stop()
	took := all.areRight(t, "NoSchedule")
	acts := "nodekeep_capture_steps_total"
	t.Logf("%s were right %s after the last; the captures made %.0f and %.0f steps, and %.0f and %.0f were lost to the other one and planned again",
		all.did(), took.Round(time.Millisecond), series(t, first, acts), series(t, second, acts),
		series(t, first, "nodekeep_capture_conflicts_total"), series(t, second, "nodekeep_capture_conflicts_total"))
	assert.Positive(t, series(t, first, acts), "the first must have taken part")
	assert.Positive(t, series(t, second, acts), "the second must have taken part")
}

// Both take the file over when they next look, so for up to five seconds they follow different rules and undo each other.
func TestTwoCapturesWithDifferentRulesForAMomentComeToTheNewOnes(t *testing.T) {
	underRules(t)
	captureThrough(t)
	_, second := secondCapture(t, alone)
	all := newPeople(t, "two-rules", 6)
	defer all.forget(t)
	for _, p := range all {
		p.set("dedicated", "v0")
	}
	all.areRight(t, "NoSchedule")
	before := series(t, nodekeep.MetricsURL("capture"), "nodekeep_capture_steps_total") + series(t, second, "nodekeep_capture_steps_total")
	require.NoError(t, nodekeep.WritePolicy(otherEffect))
	for _, p := range all {
		p.set("dedicated", "v1")
		p.setMaintenance("disk")
	}
	took := all.areRight(t, "PreferNoSchedule")
	time.Sleep(time.Second)
	all.areRight(t, "PreferNoSchedule")
	after := series(t, nodekeep.MetricsURL("capture"), "nodekeep_capture_steps_total") + series(t, second, "nodekeep_capture_steps_total")
	t.Logf("%d Nodes followed the new rules %s after the edits, which took %.0f steps of both captures", len(all), took.Round(time.Millisecond), after-before)
}

var otherEffect = strings.ReplaceAll(rulesAndMore, "{value}:NoSchedule", "{value}:PreferNoSchedule")

// Webhook and capture take a policy over some seconds apart (a mounted ConfigMap: up to minutes). A Node that registers in
// between gets taints by rules of which capture does not know, yet or any more.
func TestRulesThatChangeUnderRegistrationsLeaveNoTaintBehind(t *testing.T) {
	underRules(t)
	captureThrough(t) // leads from its start
	all := newPeople(t, "rules-change", 8)
	defer all.forget(t)
	stop := all.work(20 * time.Millisecond)
	time.Sleep(time.Second)
	require.NoError(t, nodekeep.WritePolicy(otherEffect))
	time.Sleep(6 * time.Second)
	stop()
	took := all.areRight(t, "PreferNoSchedule")
	t.Logf("%s were right %s after the last", all.did(), took.Round(time.Millisecond))
}
