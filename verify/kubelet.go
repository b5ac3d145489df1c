package verify

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubelet has the API server read the worker's log from the kubelet. It finds unapproved serving certificates, and a kubelet that the API server
// cannot reach. With such a fault, kubectl logs and exec do not work for Pods on the Node. Webhooks behind the API server's tunnel do not work there
// either.
type Kubelet struct{}

func (*Kubelet) kind() Kind {
	return Kind{
		"kubelet", "the API server can read a log from the kubelet",
		"the controller asks, not the worker. It fails if the kubelet's serving certificate is not approved, or if the API server cannot reach the Node. `kubectl logs` and `exec` do not work there",
	}
}

func (*Kubelet) compile(*compiler, *field.Path) {}

func (*Kubelet) needs() Needs { return Needs{} }

func (*Kubelet) answered() answer { return byPod(judgeKubelet) }

// askEvery is the pause between two attempts to read the log. Serving certificates are approved moments after a Node is Ready.
const askEvery = time.Second

// askUntil returns the deadline for the kubelet's answer. The timeout counts from the start of the worker, which its kubelet reports.
func askUntil(pod Pod, worker ContainerState, timeout time.Duration, now time.Time) time.Time {
	started := latest(pod.Created, worker.Started)
	if started.After(now) {
		started = pod.Created
	}
	return started.Add(timeout)
}

// kubeletTimeout returns how long the kubelet is asked. One answer counts for all checks of that kind, so the longest timeout does.
func kubeletTimeout(checks []Check, profile CompiledProfile) (longest time.Duration) {
	for _, check := range checks {
		if check.Kubelet != nil {
			longest = max(longest, profile.TimeoutOf(check))
		}
	}
	return longest
}

// judgeKubelet returns the result of a kubelet check.
func judgeKubelet(check Check, pod Pod, _ time.Duration) Result {
	result := Result{Check: check.Name, Required: check.IsRequired(), Outcome: Passed}
	if pod.Log.Reason != "" {
		result.Outcome, result.Reason, result.Message = Failed, pod.Log.Reason, Clean(pod.Log.Message)
	}
	return result
}
