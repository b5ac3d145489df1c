package verify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

func TestACheckOfTheKubeletNeedsTheLogOfAWorkerThatIsDone(t *testing.T) {
	profiles := planProfile(t, func(profile *verify.Profile) {
		profile.Checks = append(profile.Checks, verify.Check{Name: "kubelet", Kubelet: &verify.Kubelet{}})
		profile.Timeout = "20s"
	})
	profile := profiles.All()[0]
	failed := verify.Log{Asked: true, Reason: verify.ReasonRefused, Message: "no\x1b"}
	for name, test := range map[string]struct {
		pod     func(*verify.Pod)
		log     verify.Log
		after   time.Duration // the creation of the Pod
		verdict verify.Verdict
		needs   bool
	}{
		"the worker runs":                        {pod: func(*verify.Pod) {}, after: 3 * time.Second},
		"the worker is done":                     {pod: ended(corev1.PodSucceeded, 0, passes), after: 3 * time.Second, needs: true},
		"the kubelet answered":                   {pod: ended(corev1.PodSucceeded, 0, passes), log: verify.Log{Asked: true}, after: 3 * time.Second, verdict: verify.VerdictPassed},
		"it did not answer, and may still":       {pod: ended(corev1.PodSucceeded, 0, passes), log: failed, after: 3 * time.Second, needs: true},
		"it did not answer in time":              {pod: ended(corev1.PodSucceeded, 0, passes), log: failed, after: 30 * time.Second, verdict: verify.VerdictFailed},
		"it answered, and a check failed":        {pod: ended(corev1.PodFailed, 1, refuses), log: verify.Log{Asked: true}, after: 3 * time.Second, verdict: verify.VerdictFailed},
		"a worker without a report needs no log": {pod: ended(corev1.PodFailed, 137, ""), after: 3 * time.Second, verdict: verify.VerdictInconclusive},
		"a worker cannot report for the kubelet": {pod: ended(corev1.PodSucceeded, 0, `{"results":[{"check":"dns","outcome":"passed","required":true,"millis":1},{"check":"kubelet","outcome":"passed","required":true,"millis":1}]}`), log: failed, after: 30 * time.Second, verdict: verify.VerdictInconclusive},
		"a clock in the future shortens no check": {pod: func(pod *verify.Pod) {
			ended(corev1.PodSucceeded, 0, passes)(pod)
			pod.Containers[0].Started = born.Add(time.Hour)
		}, log: failed, after: 30 * time.Second, verdict: verify.VerdictFailed},
	} {
		t.Run(name, func(t *testing.T) {
			pod := workerPod(readyNode(), profiles, test.pod)
			pod.Log = test.log
			judged := verify.Judge(pod, profile, pod.Created.Add(test.after))
			assert.Equal(t, test.verdict, judged.Verdict, judged.Message)
			assert.Equal(t, test.needs, judged.NeedsLog)
			assert.NotContains(t, judged.Message, "\x1b")
		})
	}
}
