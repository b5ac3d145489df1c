package chart

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestTheChartHasNothingForTheLinterToSay(t *testing.T) {
	_, err := harness.RunHelm(t.Context(), "lint", "--strict", harness.Chart())
	require.NoError(t, err)
}

func TestWhatComesOfValues(t *testing.T) {
	for name, v := range variants(t) {
		t.Run(name, func(t *testing.T) {
			r := render(t, v.args...)
			v.want(t, r)
			everyObjectIsOurs(t, r)
			noWebhookKeepsANodeOutOrIn(t, r)
			everyPodIsConfinedAndProbed(t, r)
			noRightIsAWildcard(t, r)
			theProgramTakesItsFlagsAndItsPolicy(t, r)
		})
	}
}

// otherNamespaces are the names of objects that are for other namespaces.
var otherNamespaces = []string{
	"nodekeep-capture-events", "nodekeep-verify-events", // Events about Nodes are in the namespace default
	"nodekeep-check", "nodekeep-verify-checks", // of Pods that check a Node
	"nodekeep-verify-lookup",               // what profiles name
	"nodekeep-viewer", "nodekeep-operator", // users in each of these
	"nodekeep-viewer-events", "nodekeep-operator-events",
}

// ofThePolicy are the objects with names of their own.
var ofThePolicy = []string{"CustomResourceDefinition /nodepolicies.nodekeep.dev", "NodePolicy /default"}

func everyObjectIsOurs(t *testing.T, r rendered) {
	t.Helper()
	seen := map[string]bool{}
	for _, object := range r {
		id := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		assert.False(t, seen[id], "twice: %s", id)
		seen[id] = true
		assert.True(t, strings.HasPrefix(object.GetName(), "nodekeep") || slices.Contains(ofThePolicy, id), id)
		assert.Equal(t, "nodekeep", object.GetLabels()["app.kubernetes.io/name"], id)
		assert.NotEmpty(t, object.GetLabels()["app.kubernetes.io/component"], id)
		if object.GetNamespace() != "" && !slices.Contains(otherNamespaces, object.GetName()) {
			assert.Equal(t, namespace, object.GetNamespace(), id)
		}
	}
	for _, name := range r.names("Deployment") {
		deployment := get[appsv1.Deployment](t, r, "Deployment", name)
		for key, value := range deployment.Spec.Selector.MatchLabels {
			assert.Equal(t, value, deployment.Spec.Template.Labels[key])
		}
		assert.Len(t, deployment.Spec.Selector.MatchLabels, 2, "selectors cannot change with an upgrade")
	}
}

func noWebhookKeepsANodeOutOrIn(t *testing.T, r rendered) {
	t.Helper()
	mutating, validating := r.hooks(t)
	for _, hook := range mutating {
		assert.Equal(t, ptr.To(admissionregistrationv1.Ignore), hook.FailurePolicy)
		assert.Equal(t, ptr.To[int32](1), hook.TimeoutSeconds)
		assert.Equal(t, ptr.To(admissionregistrationv1.SideEffectClassNone), hook.SideEffects)
		assert.Equal(t, "nodekeep-webhook", hook.ClientConfig.Service.Name)
	}
	for _, hook := range validating {
		assert.Equal(t, ptr.To(admissionregistrationv1.Ignore), hook.FailurePolicy)
		assert.Equal(t, ptr.To(map[string]int32{"policy.nodekeep.dev": 5, "deletion.nodekeep.dev": 1}[hook.Name]), hook.TimeoutSeconds)
	}
	if gated(r) {
		gate := get[admissionregistrationv1.MutatingAdmissionPolicy](t, r, "MutatingAdmissionPolicy", "nodekeep-gate")
		assert.Equal(t, ptr.To(admissionregistrationv1.Ignore), gate.Spec.FailurePolicy)
		assert.Nil(t, gate.Spec.ParamKind, "API servers stop following ConfigMaps")
	}
	if guarded(r) {
		assert.Equal(t, ptr.To(admissionregistrationv1.Ignore), get[admissionregistrationv1.ValidatingAdmissionPolicy](t, r, "ValidatingAdmissionPolicy", "nodekeep-guard").Spec.FailurePolicy)
	}
	if stripped(r) {
		assert.Equal(t, ptr.To(admissionregistrationv1.Ignore), get[admissionregistrationv1.MutatingAdmissionPolicy](t, r, "MutatingAdmissionPolicy", "nodekeep-strip").Spec.FailurePolicy)
	}
	if r.contains("ValidatingAdmissionPolicy", "nodekeep-verify") { // it fails closed, so it must end at once for all others
		conditions := get[admissionregistrationv1.ValidatingAdmissionPolicy](t, r, "ValidatingAdmissionPolicy", "nodekeep-verify").Spec.MatchConditions
		require.Len(t, conditions, 1)
		assert.Equal(t, "request.userInfo.username == 'system:serviceaccount:"+namespace+":nodekeep-verify'", conditions[0].Expression)
	}
}

func everyPodIsConfinedAndProbed(t *testing.T, r rendered) {
	t.Helper()
	for name, pod := range r.pods(t) {
		require.Len(t, pod.Spec.Containers, 1)
		container := pod.Spec.Containers[0]
		assert.Equal(t, ptr.To(true), container.SecurityContext.ReadOnlyRootFilesystem, name)
		assert.Equal(t, ptr.To(true), pod.Spec.SecurityContext.RunAsNonRoot, name)
		assert.NotZero(t, container.Resources.Requests.Memory().Value(), name)
		assert.NotZero(t, container.Resources.Requests.Cpu().Value(), name)
		assert.Zero(t, container.Resources.Limits.Cpu().Value(), name)
		for _, key := range []string{argument(container, "--gate-key="), "node-role.kubernetes.io/control-plane"} {
			assert.True(t, tolerates(pod.Spec, key), "%s must run on Nodes with %s", name, key)
		}
		for _, volume := range pod.Spec.Volumes {
			inMemory := volume.EmptyDir != nil && volume.EmptyDir.Medium == corev1.StorageMediumMemory
			assert.True(t, volume.ConfigMap != nil || volume.Secret != nil || inMemory, "%s writes to no disk", name)
		}
		if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			continue // the Job
		}
		for subject, probe := range map[string]*corev1.Probe{"healthz": container.LivenessProbe, "readyz": container.ReadinessProbe} {
			require.NotNil(t, probe, name)
			if probe.Exec == nil {
				assert.Equal(t, "/"+subject, probe.HTTPGet.Path)
				continue
			}
			socket, _ := strings.CutPrefix(argument(container, "--health-probe-bind-address="), "unix:")
			assert.Equal(t, []string{"/nodekeep", "probe", socket, subject}, probe.Exec.Command)
			assert.GreaterOrEqual(t, probe.TimeoutSeconds, int32(10), "more than the command takes, and a busy Node takes a while to start it")
		}
		assert.GreaterOrEqual(t, container.StartupProbe.PeriodSeconds*container.StartupProbe.FailureThreshold, int32(300), "100,000 records take a while to read")
	}
}

// argument returns the value of a flag of a container.
func argument(container corev1.Container, flag string) string {
	for _, arg := range container.Args {
		if value, ok := strings.CutPrefix(arg, flag); ok {
			return value
		}
	}
	return ""
}

func noRightIsAWildcard(t *testing.T, r rendered) {
	t.Helper()
	for _, rule := range r.rules(t) {
		for _, list := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources} {
			assert.NotContains(t, list, "*", "%v", rule)
		}
		if slices.Contains(rule.Resources, "nodepolicies") {
			assert.Subset(t, []string{"get", "list", "watch"}, rule.Verbs, "nobody writes the policy")
		}
		if slices.Contains(rule.Resources, "nodes/status") {
			assert.Equal(t, []string{"patch"}, rule.Verbs, "%v", rule)
		}
		if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return strings.HasPrefix(verb, "impersonate") }) {
			assert.Len(t, rule.Verbs, 1, "%v", rule)
			assert.True(t, len(rule.ResourceNames) == 1 || rule.Verbs[0] == "impersonate-on:arbitrary-node:create", "an identity is one user: %v", rule)
			continue
		}
		if slices.Contains(rule.Resources, "nodes") && (!slices.Equal(rule.Verbs, []string{"delete"}) || !removesNodes(t, r)) {
			assert.Subset(t, []string{"get", "list", "watch", "patch"}, rule.Verbs, "nobody creates or deletes Nodes")
		}
		if slices.Contains(rule.Resources, "secrets") {
			assert.Equal(t, []string{"nodekeep-webhook-tls"}, rule.ResourceNames)
		}
	}
}

// removesNodes reports whether a profile deletes the Nodes that fail.
func removesNodes(t *testing.T, r rendered) bool {
	t.Helper()
	return strings.Contains(r.policy(t), "onFailure: node\n")
}

// theProgramTakesItsFlagsAndItsPolicy starts nodekeep with the arguments of each pod, but for a kubeconfig that is not there: it names
// every error at once, and this must be the only one.
func theProgramTakesItsFlagsAndItsPolicy(t *testing.T, r rendered) {
	t.Helper()
	_, err := policy.Load([]byte(r.policy(t)), policy.DefaultGate)
	require.NoError(t, err)
	for name := range r.pods(t) {
		args := slices.Clone(r.container(t, name).Args)
		out, err := exec.CommandContext(t.Context(), binary, append(args, "--kubeconfig=/does/not/exist")...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s", name)
		assert.Equal(t, 2, exit.ExitCode(), "%s", out)
		want := "nodekeep cannot start; 1 error(s):\n  --kubeconfig"
		if args[0] == "uninstall" { // an operator's command, which has kubectl's connection flags
			want = "read kubeconfig: stat /does/not/exist"
		}
		assert.Contains(t, string(out), want, "%s %v", name, args)
	}
}

// A value that nobody has set must not change what the program does by itself.
func TestTheDefaultsOfTheChartAreThoseOfTheProgram(t *testing.T) {
	inPods := []string{"namespace", "metrics-bind-address", "health-probe-bind-address", "image"}
	compared := 0
	for _, process := range []string{"webhook", "capture", "verify"} {
		help, err := exec.CommandContext(t.Context(), binary, process, "--help").Output()
		require.NoError(t, err)
		for _, arg := range render(t, set("verify.enabled=true")...).container(t, "nodekeep-"+process).Args[1:] {
			flag, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if slices.Contains(inPods, flag) {
				continue
			}
			out := regexp.MustCompile(`(?m)^ +--` + flag + ` .*\(default "?([^")]*)"?\)$`).FindSubmatch(help)
			require.NotNil(t, out, "%s has a default", flag)
			assert.Equal(t, inGo(t, string(out[1])), inGo(t, value), flag)
			compared++
		}
	}
	assert.Greater(t, compared, 12)
}

// inGo returns a value as flags print it: durations are written in more than one way.
func inGo(t *testing.T, value string) string {
	t.Helper()
	if duration, err := time.ParseDuration(value); err == nil {
		return duration.String()
	}
	return value
}
