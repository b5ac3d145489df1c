package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/verify"
)

func TestWhatManyNodesMeetIsReportedOnceWhileItLastsAndAgainEachHalfHour(t *testing.T) {
	profile := newBed(t).profiles.All()[0]
	action := verify.Action{Profile: profile, Progress: verify.Progress{Attempts: 1, Last: &verify.Last{Result: verify.VerdictInconclusive}}}
	r, began := sharedReports{facts: map[fact]telling{}}, time.Now()
	pos := func(minutes float64) time.Time { return began.Add(time.Duration(minutes * float64(time.Minute))) }

	assert.False(t, r.lasts("down", profile.Name, pos(0)))
	var reported []float64
	for minute := 0.0; minute <= 70; minute += 0.5 { // attempts of all Nodes together
		if r.due("down", "a", action, pos(minute)) {
			reported = append(reported, minute)
		}
	}
	assert.Equal(t, []float64{0, 30, 60}, reported)
	assert.True(t, r.lasts("down", profile.Name, pos(70)))
	assert.False(t, r.lasts("down", "other", pos(70)))
	assert.True(t, r.due("full", "a", action, pos(70)), "something else")

	assert.False(t, r.lasts("down", profile.Name, pos(80)), "no attempt met it again")
	assert.True(t, r.due("down", "a", action, pos(80)), "it is new again")
}

func TestAKubeletThatRepeatsAReasonKeepsTheReportFromNoOtherNodeForLongerThanHalfAnHour(t *testing.T) {
	action := verify.Action{Profile: newBed(t).profiles.All()[0]}
	r, began := sharedReports{facts: map[fact]telling{}}, time.Now()
	var reported []string
	for second := range 3600 {
		now := began.Add(time.Duration(second) * time.Second)
		if r.due("NoReport", "hostile", action, now) {
			reported = append(reported, fmt.Sprint("hostile at ", second))
		}
		if second%300 == 299 && r.due("NoReport", "honest", action, now) {
			reported = append(reported, fmt.Sprint("honest at ", second))
		}
	}
	assert.Equal(t, []string{"hostile at 0", "honest at 2099"}, reported) // its first attempt that ends after half an hour
}

// Kubelets choose some of the reasons.
func TestWhatWasReportedTakesNoMoreMemoryOnceItHasEnded(t *testing.T) {
	action := verify.Action{Profile: newBed(t).profiles.All()[0]}
	reported, now := sharedReports{facts: map[fact]telling{}}, time.Now()
	for i := range 1000 {
		reported.due(fmt.Sprint("reason-", i), "a", action, now)
		now = now.Add(time.Minute)
	}
	assert.Less(t, len(reported.facts), 20)
}
