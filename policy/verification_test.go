package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/verify"

	"nodekeep.dev/nodekeep/policy/policytest"
)

const gpuProfile = `verify:
  profiles:
  - name: gpu
    nodeSelector: gpu=yes
    wait: {allocatable: {nvidia.com/gpu: 1}}
    checks: [{name: api, api: {}}]
  - name: rest
    nodeSelector: "!control"
    taint: example.com/new=yes:NoExecute
    checks: [{name: api, api: {}}]
`

func TestAProfilesTaintIsARegistrationTaint(t *testing.T) {
	p := loadPolicy(t, gpuProfile+"taints: {register: [{taint: 'warming:NoSchedule'}]}\n")
	unverified := corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}
	candidate := corev1.Taint{Key: "example.com/new", Value: "yes", Effect: corev1.TaintEffectNoExecute}
	warming := corev1.Taint{Key: "warming", Effect: corev1.TaintEffectNoSchedule}
	assert.Equal(t, []corev1.Taint{unverified, warming}, p.RegistrationTaints(map[string]string{"gpu": "yes"}), "that of the first profile only")
	assert.Equal(t, []corev1.Taint{candidate, warming}, p.RegistrationTaints(nil))
	assert.Equal(t, []corev1.Taint{warming}, p.RegistrationTaints(map[string]string{"control": ""}))
	assert.ElementsMatch(t, []corev1.Taint{warming, unverified, candidate}, p.AllRegistrationTaints())
	for _, item := range []string{"nodekeep.dev/unverified:NoSchedule", "example.com/new:NoExecute", "example.com/new:NoSchedule", "warming:NoSchedule"} {
		assert.True(t, p.AddsAtRegistration(item), item)
	}
	assert.False(t, p.AddsAtRegistration("nodekeep.dev/unverified"), "a label of that name")
}

func TestAProfileThatOnlyReportsAddsNoTaint(t *testing.T) {
	p := loadPolicy(t, strings.Replace(gpuProfile, "    wait:", "    mode: report\n    wait:", 1))
	assert.Empty(t, p.RegistrationTaints(map[string]string{"gpu": "yes"}), "nor that of a profile after it")
	candidate := corev1.Taint{Key: "example.com/new", Value: "yes", Effect: corev1.TaintEffectNoExecute}
	assert.Equal(t, []corev1.Taint{candidate}, p.RegistrationTaints(nil))
	assert.Equal(t, []corev1.Taint{candidate}, p.AllRegistrationTaints())
	assert.False(t, p.AddsAtRegistration("nodekeep.dev/unverified:NoSchedule"))
}

func TestTheLabelAndTaintOfVerificationAreNeverRemembered(t *testing.T) {
	custom := loadPolicy(t, strings.Replace(gpuProfile, "verify:\n", "verify:\n  label: example.com/ok\n", 1)+
		"labels: {keep: ['*', example.com/ok, nodekeep.dev/verified]}\ntaints: {keep: ['*', example.com/new, nodekeep.dev/unverified]}\n")
	former := loadPolicy(t, "").WithPredecessor(loadPolicy(t, "").WithPredecessor(custom))
	args := []string{"nodekeep.dev/verified", "nodekeep.dev/unverified:NoSchedule", "nodekeep.dev/unverified:NoExecute"}
	customs := []string{"example.com/ok", "example.com/new:NoExecute", "example.com/new:NoSchedule"}
	for name, row := range map[string]struct {
		policy Policy
		items  []string
	}{
		"by default":                             {Default(), args},
		"with keys of one's own, kept by name":   {custom, append(customs, args...)},
		"after the policy went back to defaults": {former, append(customs, args...)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, item := range row.items {
				keeps, reason := row.policy.Keeps(item)
				assert.False(t, keeps, item)
				assert.Equal(t, "verification sets and removes it", reason, item)
				assert.False(t, row.policy.Restores(item), item)
				assert.Equal(t, record.OtherOwner, row.policy.Judge(Metadata{Items: map[string]string{item: ""}}, item).Owner, item)
			}
		})
	}
	for _, item := range customs {
		keeps, _ := Default().Keeps(item)
		assert.True(t, keeps, "%s is an ordinary key where verification never used it", item)
	}
}

// A process that was restarted does not know the policy before.
func TestALabelThatOnlyVerificationHasSetIsNotRemembered(t *testing.T) {
	node := Metadata{Items: map[string]string{"example.com/ok": "true"}, Owners: map[string][]string{"example.com/ok": {verify.Manager}}}
	verdict := Default().Judge(node, "example.com/ok")
	assert.False(t, verdict.Keeps)
	assert.Equal(t, "verification has set it", verdict.Reason())
	node.Owners["example.com/ok"] = []string{"kubectl", verify.Manager}
	assert.True(t, Default().Judge(node, "example.com/ok").Keeps, "an operator has set it, too")
}

func TestVerificationTakesNobodyElsesKeys(t *testing.T) {
	profile := func(taint string) string {
		return "verify: {profiles: [{name: a, taint: '" + taint + "', checks: [{name: a, api: {}}]}]}\n"
	}
	for name, row := range map[string]struct{ sections, field, says string }{
		"a label of nodekeep's":              {"verify: {label: nodekeep.dev/ok}", "spec.verify.label", "belongs to nodekeep itself"},
		"a label of a component":             {"verify: {label: nvidia.com/gpu.present}", "spec.verify.label", "belongs to the NVIDIA GPU operator"},
		"a label that a rule sets":           {"labels: {rules: [{name: a, set: {ok: 'true'}}]}\nverify: {label: ok}", "spec.verify.label", "labels.rules set or remove it"},
		"a taint of nodekeep's":              {profile("nodekeep.dev/new:NoSchedule"), "spec.verify.profiles[0].taint", "belongs to nodekeep itself"},
		"the gate":                           {profile("nodekeep.dev/restoring:NoSchedule"), "spec.verify.profiles[0].taint", "it is the gate"},
		"a taint of a component":             {profile("node.cilium.io/agent-not-ready:NoSchedule"), "spec.verify.profiles[0].taint", "belongs to the agent that is not ready"},
		"a taint that is registered already": {profile("new:NoSchedule") + "taints: {register: [{taint: 'new:NoExecute'}]}", "spec.verify.profiles[0].taint", "taints.register adds"},
		"a taint that a rule makes":          {profile("new:NoSchedule") + "taints: {rules: [{selector: a, taint: 'new=x:NoExecute'}]}", "spec.verify.profiles[0].taint", "taints.rules add"},
		"a taint that a rule removes":        {profile("new:NoSchedule") + "labels: {rules: [{name: a, ensureAbsent: ['new:NoSchedule']}]}", "spec.verify.profiles[0].taint", "labels.rules remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(policytest.Manifest(row.sections)), DefaultGate)
			var errs FileErrors
			require.ErrorAs(t, err, &errs)
			require.Len(t, errs, 1, "%v", errs)
			assert.Equal(t, row.field, errs[0].Field)
			assert.Contains(t, errs[0].Message, row.says)
		})
	}
	for name, sections := range map[string]string{
		"a label that no kubelet may set":         "verify: {label: node-restriction.kubernetes.io/verified}",
		"a taint that the cluster autoscaler has": profile("startup-taint.cluster-autoscaler.kubernetes.io/nodekeep:NoSchedule"),
		"a taint that Karpenter has":              profile("readiness.k8s.io/nodekeep:NoSchedule"),
	} {
		_, err := Load([]byte(policytest.Manifest(sections)), DefaultGate)
		assert.NoError(t, err, name)
	}
}

func TestTheGateCanHaveAKeyThatKarpenterHas(t *testing.T) {
	gate := Gate("readiness.k8s.io/nodekeep-restoring")
	sections := "verify: {profiles: [{name: a, taint: 'TAINT', checks: [{name: a, api: {}}]}]}\n"
	_, err := Load([]byte(policytest.Manifest(strings.Replace(sections, "TAINT", "readiness.k8s.io/nodekeep:NoSchedule", 1))), gate)
	require.NoError(t, err)
	_, err = Load([]byte(policytest.Manifest(strings.Replace(sections, "TAINT", string(gate)+":NoSchedule", 1))), gate)
	require.ErrorContains(t, err, "it is the gate")
}

func TestErrorsOfTheSectionVerifyHaveTheirLines(t *testing.T) {
	_, err := Load([]byte(policytest.Manifest(`verify:
  limits: {stopAbove: [20%]}
  profiles:
  - name: gpu
    onFailure: reboot
    reverify: [onReboot]
    wait:
      allocatable: {cpu: [1]}
      conditions: {A: False}
    checks:
    - name: a
      windows: {}
    - {name: b, api: {}, required: "no"}
    - {name: c, service: {name: a/b, port: "53"}}
    timeout: 30
`)), DefaultGate)
	var errs FileErrors
	require.ErrorAs(t, err, &errs)
	lines := map[string]int{}
	for _, fileErr := range errs {
		lines[fileErr.Field] = fileErr.Line
	}
	assert.Equal(t, map[string]int{
		"spec.verify.limits.stopAbove": 6, "spec.verify.profiles[0].onFailure": 9, "spec.verify.profiles[0].reverify": 10,
		"spec.verify.profiles[0].wait.allocatable[cpu]": 12, "spec.verify.profiles[0].wait.conditions[A]": 13,
		"spec.verify.profiles[0].checks[0].windows": 16, "spec.verify.profiles[0].checks[0]": 15, "spec.verify.profiles[0].checks[1].required": 17,
		"spec.verify.profiles[0].checks[2].service.port": 18, "spec.verify.profiles[0].timeout": 19,
	}, lines)
	require.ErrorContains(t, err, "must be a quantity, such as 1 or 64Gi")
	require.ErrorContains(t, err, "must be a number of Nodes, or a percentage such as 20%")
}

func TestAProfileThatAKubeletCanChooseIsAWarning(t *testing.T) {
	p := loadPolicy(t, `verify:
  profiles:
  - {name: gpu, nodeSelector: "node-role.kubernetes.io/gpu,gpu=yes,!kubernetes.io/hostname", checks: [{name: a, api: {}}]}
  - {name: safe, nodeSelector: "node-role.kubernetes.io/a,node-restriction.kubernetes.io/b=c", checks: [{name: a, api: {}}]}
  - {name: rest, checks: [{name: a, api: {}}]}
`)
	assert.Equal(t, []string{"verify.profiles: gpu selects by gpu, kubernetes.io/hostname, which a kubelet may set on its own Node: it can choose another profile, or none"}, p.Warnings())
	assert.Empty(t, Default().Warnings())
}

func TestAPolicyThatKeepsNothingIsValidAndHasAWarning(t *testing.T) {
	for section, want := range map[string][]string{
		`labels: {keep: []}`:       {"labels.keep is empty: no label is kept or restored. To keep all, leave the field out"},
		`labels: {ignore: ["*"]}`:  {"labels.ignore has *: no label is kept or restored"},
		`taints: {keep: []}`:       {"taints.keep is empty: no taint is kept or restored. To keep all, leave the field out"},
		`labels: {ignore: ["a*"]}`: nil,
	} {
		t.Run(section, func(t *testing.T) {
			p := loadPolicy(t, section+"\n")
			assert.Equal(t, want, p.Warnings())
		})
	}
}
