package verify_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/verify"
)

func TestACheckTookNoLongerThanItsTimeoutWhateverItsKubeletSays(t *testing.T) {
	profile := planProfile(t, func(profile *verify.Profile) {
		profile.Checks = append(profile.Checks,
			verify.Check{Name: "short", Timeout: "5s", API: &verify.API{}},
			verify.Check{Name: "smi", Timeout: "20s", Container: &verify.Container{Image: "smi"}},
			verify.Check{Name: "kubelet", Kubelet: &verify.Kubelet{}})
	}).All()[0]
	for name, row := range map[string]struct {
		result verify.Result
		took   time.Duration
		known  bool
	}{
		"as reported":                       {verify.Result{Check: "dns", Outcome: verify.Passed, Millis: 1500}, 1500 * time.Millisecond, true},
		"more than the profile's timeout":   {verify.Result{Check: "dns", Outcome: verify.Passed, Millis: 31_000}, 30 * time.Second, true},
		"more than its own timeout":         {verify.Result{Check: "short", Outcome: verify.Failed, Millis: 6000}, 5 * time.Second, true},
		"more than a duration can be":       {verify.Result{Check: "short", Outcome: verify.Passed, Millis: math.MaxInt}, 5 * time.Second, true},
		"less than nothing":                 {verify.Result{Check: "short", Outcome: verify.Passed, Millis: -1}, 0, true},
		"a container that ended":            {verify.Result{Check: "smi", Outcome: verify.Failed, Reason: "ExitCode", Millis: 3000}, 3 * time.Second, true},
		"a container that did not":          {verify.Result{Check: "smi", Outcome: verify.Failed, Reason: verify.ReasonTimeout}, 20 * time.Second, true},
		"one that was skipped":              {verify.Result{Check: "dns", Outcome: verify.Skipped}, 0, false},
		"one that the controller asks":      {verify.Result{Check: "kubelet", Outcome: verify.Passed}, 0, false},
		"one that the profile does not ask": {verify.Result{Check: "other", Outcome: verify.Passed, Millis: 1}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			took, known := profile.Took(row.result)
			assert.Equal(t, row.took, took)
			assert.Equal(t, row.known, known)
		})
	}
}
