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
	told, began := told{facts: map[fact]telling{}}, time.Now()
	at := func(minutes float64) time.Time { return began.Add(time.Duration(minutes * float64(time.Minute))) }

	assert.False(t, told.lasts("down", profile.Name, at(0)))
	var reported []float64
	for minute := 0.0; minute <= 70; minute += 0.5 { // attempts of all Nodes together
		if told.due("down", "a", action, at(minute)) {
			reported = append(reported, minute)
		}
	}
	assert.Equal(t, []float64{0, 30, 60}, reported)
	assert.True(t, told.lasts("down", profile.Name, at(70)))
	assert.False(t, told.lasts("down", "other", at(70)))
	assert.True(t, told.due("full", "a", action, at(70)), "something else")

	assert.False(t, told.lasts("down", profile.Name, at(80)), "no attempt met it again")
	assert.True(t, told.due("down", "a", action, at(80)), "it is new again")
}

func TestAKubeletThatRepeatsAReasonKeepsTheReportFromNoOtherNodeForLongerThanHalfAnHour(t *testing.T) {
	action := verify.Action{Profile: newBed(t).profiles.All()[0]}
	told, began := told{facts: map[fact]telling{}}, time.Now()
	var reported []string
	for second := range 3600 {
		now := began.Add(time.Duration(second) * time.Second)
		if told.due("NoReport", "hostile", action, now) {
			reported = append(reported, fmt.Sprint("hostile at ", second))
		}
		if second%300 == 299 && told.due("NoReport", "honest", action, now) {
			reported = append(reported, fmt.Sprint("honest at ", second))
		}
	}
	assert.Equal(t, []string{"hostile at 0", "honest at 2099"}, reported) // its first attempt that ends after half an hour
}

// Kubelets choose some of the reasons.
func TestWhatWasReportedTakesNoMoreMemoryOnceItHasEnded(t *testing.T) {
	action := verify.Action{Profile: newBed(t).profiles.All()[0]}
	told, now := told{facts: map[fact]telling{}}, time.Now()
	for i := range 1000 {
		told.due(fmt.Sprint("reason-", i), "a", action, now)
		now = now.Add(time.Minute)
	}
	assert.Less(t, len(told.facts), 20)
}
