package trial

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// The Nodes of the trial.
const (
	healthy = "trial-healthy" // verified, with an operator's labels
	deleted = "trial-deleted" // its record remains
	failing = "trial-failing" // its checks fail
)

// commands are what an operator asks in any situation. None changes anything.
var commands = []string{
	"list", "list -o wide", "list --waiting gate", "report", "doctor",
	"show " + healthy, "show --diff " + healthy, "explain " + healthy, "show --history " + healthy,
	"show " + deleted, "explain " + deleted, "show --history " + deleted, "forget --dry-run " + deleted,
	"show " + failing, "explain " + failing,
	"list --waiting verification", "list --waiting verification -o wide", "show --verification " + healthy, "show --verification " + failing, "show --verification " + deleted,
	"emergency --dry-run", "uninstall --dry-run",
}

func TestNoCommandSaysWhatIsNotTrue(t *testing.T) {
	nodekeep.RunWorkers(t, func(pod *corev1.Pod, task verify.Task) bool {
		if pod.Spec.NodeName == failing {
			harness.SetEnded(pod, harness.WorkerReport(task.Checks, verify.Failed, verify.ReasonTimeout), 1)
		} else {
			harness.SetEnded(pod, harness.WorkerReport(task.Checks, verify.Passed, ""), 0)
		}
		return true
	})
	for _, component := range []string{webhookProcess, captureProcess, verifyProcess} {
		runs(t, component)
	}
	register(t, deleted, nil)
	nodekeep.Label(t, deleted, map[string]any{"rack": "r1"})
	waitRecorded(t, deleted, "rack", "r1")
	nodekeep.DeleteNode(t, deleted)
	nodekeep.WaitDeletionRecorded(t, deleted)
	register(t, healthy, map[string]string{"pool": "workers"})
	nodekeep.Label(t, healthy, map[string]any{"rack": "r2", "team": ""})
	nodekeep.Taint(t, healthy, "tenant=blue:NoSchedule")
	waitRecorded(t, healthy, "tenant:NoSchedule", "blue")
	waitRecorded(t, healthy, "team", "")
	register(t, failing, map[string]string{"pool": "workers"})
	nodekeep.WaitEvent(t, failing, "VerificationFailed")

	for _, situation := range []struct {
		name  string
		begin func(t *testing.T)
		ends  func(t *testing.T)
	}{
		{"all is well", allIsWell, func(*testing.T) {}},
		{
			"the webhook is down",
			func(t *testing.T) { stops(t, webhookProcess, nodekeep.StopWebhook) },
			func(t *testing.T) {
				require.NoError(t, nodekeep.StartWebhook(t.Context()))
				runs(t, webhookProcess)
			},
		},
		{
			"capture is down",
			func(t *testing.T) { stops(t, captureProcess, nodekeep.StopCapture) },
			func(t *testing.T) {
				require.NoError(t, nodekeep.StartCapture(t.Context()))
				runs(t, captureProcess)
				allIsWell(t)
			},
		},
		{
			"the controller of verification is down",
			func(t *testing.T) { stops(t, verifyProcess, nodekeep.StopVerify) },
			func(t *testing.T) {
				require.NoError(t, nodekeep.StartVerify(t.Context()))
				runs(t, verifyProcess)
				allIsWell(t)
			},
		},
		{"a policy was just changed, and a process has not read it", policyChanges, func(t *testing.T) {
			require.NoError(t, nodekeep.Cluster.Process("nodekeep-verify").Resume())
			nodekeep.SetPolicy(t, verifying)
			allIsWell(t)
		}},
		{"the policy cannot be used", policyIsInvalid, func(t *testing.T) {
			nodekeep.SetPolicy(t, verifying)
			allIsWell(t)
		}},
		{"an emergency", func(t *testing.T) {
			answer := nodekeep.Command(t, "", "", "emergency", "--yes")
			require.Zero(t, answer.Code, "%s%s", answer.Out, answer.ErrOut)
			assert.Contains(t, answer.Out, "closed by nodekeep before: 1 ("+failing+"). None of them is closed by nodekeep now\n", "whichever process was faster")
		}, func(t *testing.T) {
			answer := nodekeep.Command(t, "", "", "emergency", "--end", "--yes")
			require.Zero(t, answer.Code, "%s%s", answer.Out, answer.ErrOut)
			assert.Contains(t, answer.Out, "the emergency is ended: nodekeep acts on new Nodes again\nopen and not verified: 1 ("+failing+")")
		}},
		{"an emergency has ended", allIsWell, func(*testing.T) {}},
	} {
		t.Run(situation.name, func(t *testing.T) {
			situation.begin(t)
			for _, line := range commands {
				for _, untrue := range try(t, line) {
					assert.Fail(t, "nodekeep "+line+": "+untrue)
				}
			}
			situation.ends(t)
		})
	}
}

// follows is how long a command may say what was true a moment ago: a process that was stopped leads on until its Lease is over.
const follows = time.Minute

// try runs a command and returns what it says that is not true. Processes follow the API server a moment later. So what is untrue is looked at again
// until nothing is, but not for long: what a command says while a situation lasts must be true.
func try(t *testing.T, line string) (untrue []string) {
	t.Helper()
	for end := time.Now().Add(follows); ; time.Sleep(time.Second) {
		prev := read(t)
		answer := nodekeep.Command(t, "", "", strings.Fields(line)...)
		untrue = Untrue(Output{Command: strings.Fields(line), Text: answer.Out + answer.ErrOut, Code: answer.Code}, prev, read(t))
		if len(untrue) == 0 {
			return nil
		}
		if time.Now().After(end) {
			t.Logf("nodekeep %s (exit code %d) printed:\n%s%s", line, answer.Code, answer.Out, answer.ErrOut)
			return untrue
		}
	}
}

func read(t *testing.T) State {
	t.Helper()
	state, err := Read(t.Context(), nodekeep.Cluster.Admin(), harness.Namespace)
	require.NoError(t, err)
	return state
}

// allIsWell waits until every process follows the policy and one capture leads.
func allIsWell(t *testing.T) {
	t.Helper()
	harness.Eventually(t, func() bool {
		s := read(t)
		return len(s.Behind()) == 0 && !s.Invalid() && !s.Emergency && s.Leader != ""
	}, harness.Settles, 100*time.Millisecond, "all must be well")
}

// policyChanges changes the policy while the controller of verification stands still.
func policyChanges(t *testing.T) {
	t.Helper()
	require.NoError(t, nodekeep.Cluster.Process("nodekeep-verify").Pause())
	require.NoError(t, nodekeep.WritePolicy(t.Context(), strings.Replace(verifying, "max: 2", "max: 3", 1)))
	harness.Eventually(t, func() bool {
		s := read(t)
		return slices.Equal([]string{"nodekeep-verify"}, s.Behind())
	}, harness.Settles, 100*time.Millisecond, "all but the one that stands still must read the policy")
}

func policyIsInvalid(t *testing.T) {
	t.Helper()
	nodekeep.ForcePolicy(t, strings.Replace(verifying, "pool=workers", "pool in workers", 1))
	harness.Eventually(t, func() bool { s := read(t); return s.Invalid() }, harness.Settles, 100*time.Millisecond, "the policy must be refused")
}

// register makes a Node as its kubelet does.
func register(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	node := harness.RegistrationWith(name, labels)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	nodekeep.RegisterNode(t, node)
}

// waitRecorded waits until the record of a Node has an item.
func waitRecorded(t *testing.T, node, item, value string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		found, ok := nodekeep.Record(t, node)
		return ok && harness.HasAll(found.Items(), map[string]string{item: value})
	}, harness.Settles, 50*time.Millisecond, "the record of Node %s must have %s", node, item)
}

// runs writes what kubelets and controllers would write of a component whose process runs: a Pod of the name that the process has, and a Deployment
// that is available.
func runs(t *testing.T, component string) {
	t.Helper()
	name := "nodekeep-" + component
	deployment := setAvailable(t, name, true)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
	pod.Spec.PriorityClassName = ""
	pods := nodekeep.Admin.CoreV1().Pods(harness.Namespace)
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: made.Spec.Containers[0].Name, Image: made.Spec.Containers[0].Image, ImageID: "sha256:1", Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}},
	}
	_, err = pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// stops stops a process, and deletes its Pod as its kubelet would.
func stops(t *testing.T, component string, stop func() error) {
	t.Helper()
	require.NoError(t, stop())
	name := "nodekeep-" + component
	setAvailable(t, name, false)
	err := nodekeep.Admin.CoreV1().Pods(harness.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	require.True(t, err == nil || apierrors.IsNotFound(err), err)
}

func setAvailable(t *testing.T, name string, available bool) (deployment *appsv1.Deployment) {
	t.Helper()
	deployments := nodekeep.Admin.AppsV1().Deployments(harness.Namespace)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if deployment, err = deployments.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		status := appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: *deployment.Spec.Replicas}
		if available {
			status.ReadyReplicas, status.AvailableReplicas = status.Replicas, status.Replicas
		}
		deployment.Status = status
		deployment, err = deployments.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
		return err
	}))
	return deployment
}
