package verify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

func TestACheckMayHaveATimeoutOfItsOwn(t *testing.T) {
	profiles := planProfile(t, func(profile *verify.Profile) {
		profile.Checks = append(profile.Checks,
			verify.Check{Name: "smi", Timeout: "20s", Container: &verify.Container{Image: "smi"}},
			verify.Check{Name: "burn", Container: &verify.Container{Image: "burn"}})
		profile.Timeout = "1m"
	})
	profile := profiles.All()[0]
	const done = -1
	for name, row := range map[string]struct {
		smi, burn int // seconds that they ran; done: they run
		exit      int // of smi
		evicted   string
		delay     time.Duration // the start of the containers
		verdict   verify.Verdict
		check     string
		message   string
	}{
		"all pass in time":                           {smi: 20, burn: 50, delay: 50 * time.Second, verdict: verify.VerdictPassed},
		"one without a timeout has the profile's":    {smi: 20, burn: done, delay: 69 * time.Second},
		"it does not end by that":                    {smi: 20, burn: done, delay: 70 * time.Second, verdict: verify.VerdictFailed, check: "burn", message: "did not end in time"},
		"one with a timeout is late, and ends well":  {smi: 22, burn: 30, delay: 30 * time.Second, verdict: verify.VerdictFailed, check: "smi", message: "ran for 22s, longer than 20s"},
		"it does not end, and the others have ended": {smi: done, burn: 10, delay: 30 * time.Second, verdict: verify.VerdictFailed, check: "smi", message: "did not end in time"},
		"it may still be reported":                   {smi: done, burn: 10, delay: 29 * time.Second},
		"it does not end, and another runs":          {smi: done, burn: done, delay: 31 * time.Second},
		"it was cut off late":                        {smi: 25, exit: 137, burn: 25, evicted: "Evicted", delay: 30 * time.Second, verdict: verify.VerdictInconclusive, check: "smi", message: "did not run to its end"},
	} {
		t.Run(name, func(t *testing.T) {
			start := born.Add(2 * time.Second)
			pod := workerPod(readyNode(), profiles, ended(corev1.PodRunning, 0, passes))
			pod.Reason = row.evicted
			for name, ran := range map[string]int{"smi": row.smi, "burn": row.burn} {
				state := verify.ContainerState{Name: name, Started: start}
				if ran != done {
					state.Ended, state.Finished = true, start.Add(time.Duration(ran)*time.Second)
				}
				if name == "smi" {
					state.ExitCode = row.exit
				}
				pod.Containers = append(pod.Containers, state)
			}
			judged := verify.Judge(pod, profile, start.Add(row.delay))
			assert.Equal(t, row.verdict, judged.Verdict, judged.Message)
			assert.Equal(t, row.check, judged.Check)
			assert.Contains(t, judged.Message, row.message)
		})
	}
}

func TestAPodThatDoesNotStartNamesItsRuntimeClass(t *testing.T) {
	profiles := planProfile(t, func(profile *verify.Profile) {
		profile.Checks = append(profile.Checks, verify.Check{Name: "smi", Container: &verify.Container{Image: "smi", RuntimeClassName: "nvidia"}})
	})
	pod := workerPod(readyNode(), profiles, nil)
	pod.Containers = []verify.ContainerState{{Name: verify.Worker, Reason: "ContainerCreating"}, {Name: "smi", Reason: "ContainerCreating"}}
	judged := verify.Judge(pod, profiles.All()[0], pod.Created.Add(2*time.Minute))
	assert.Equal(t, verify.VerdictInconclusive, judged.Verdict, "a handler that is not there says nothing about the Node")
	assert.Equal(t, "container nodekeep-check: ContainerCreating; RuntimeClass nvidia", judged.Message)
}

func TestTheKubeletIsAskedForTheLongestTimeoutOfItsChecks(t *testing.T) {
	profiles := planProfile(t, func(profile *verify.Profile) {
		profile.Checks = append(profile.Checks, verify.Check{Name: "a", Timeout: "3s", Kubelet: &verify.Kubelet{}}, verify.Check{Name: "b", Timeout: "5s", Kubelet: &verify.Kubelet{}})
	})
	pod := workerPod(readyNode(), profiles, ended(corev1.PodSucceeded, 0, passes))
	pod.Log = verify.Log{Asked: true, Reason: verify.ReasonRefused}
	started := pod.Containers[0].Started
	assert.True(t, verify.Judge(pod, profiles.All()[0], started.Add(4*time.Second)).NeedsLog)
	assert.Equal(t, verify.VerdictFailed, verify.Judge(pod, profiles.All()[0], started.Add(5*time.Second)).Verdict)
}

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
		delay   time.Duration // the creation of the Pod
		verdict verify.Verdict
		needs   bool
	}{
		"the worker runs":                        {pod: func(*verify.Pod) {}, delay: 3 * time.Second},
		"the worker is done":                     {pod: ended(corev1.PodSucceeded, 0, passes), delay: 3 * time.Second, needs: true},
		"the kubelet answered":                   {pod: ended(corev1.PodSucceeded, 0, passes), log: verify.Log{Asked: true}, delay: 3 * time.Second, verdict: verify.VerdictPassed},
		"it did not answer, and may still":       {pod: ended(corev1.PodSucceeded, 0, passes), log: failed, delay: 3 * time.Second, needs: true},
		"it did not answer in time":              {pod: ended(corev1.PodSucceeded, 0, passes), log: failed, delay: 30 * time.Second, verdict: verify.VerdictFailed},
		"it answered, and a check failed":        {pod: ended(corev1.PodFailed, 1, refuses), log: verify.Log{Asked: true}, delay: 3 * time.Second, verdict: verify.VerdictFailed},
		"a worker without a report needs no log": {pod: ended(corev1.PodFailed, 137, ""), delay: 3 * time.Second, verdict: verify.VerdictInconclusive},
		"a worker cannot report for the kubelet": {pod: ended(corev1.PodSucceeded, 0, `{"results":[{"check":"dns","outcome":"passed","required":true,"millis":1},{"check":"kubelet","outcome":"passed","required":true,"millis":1}]}`), log: failed, delay: 30 * time.Second, verdict: verify.VerdictInconclusive},
		"a clock in the future shortens no check": {pod: func(pod *verify.Pod) {
			ended(corev1.PodSucceeded, 0, passes)(pod)
			pod.Containers[0].Started = born.Add(time.Hour)
		}, log: failed, delay: 30 * time.Second, verdict: verify.VerdictFailed},
	} {
		t.Run(name, func(t *testing.T) {
			pod := workerPod(readyNode(), profiles, test.pod)
			pod.Log = test.log
			judged := verify.Judge(pod, profile, pod.Created.Add(test.delay))
			assert.Equal(t, test.verdict, judged.Verdict, judged.Message)
			assert.Equal(t, test.needs, judged.NeedsLog)
			assert.NotContains(t, judged.Message, "\x1b")
		})
	}
}
