package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
)

// follow gives the NodePolicy generation 4, and says which generation Pods follow.
func (s *Installation) follow(followers map[string]any) {
	s.Policy.Value.SetGeneration(4)
	s.Policy.Value.Object["status"] = map[string]any{"readBy": followers}
}

func TestFindingsOfThePolicy(t *testing.T) {
	const (
		webhookPod, capturePod, verifyPod = "nodekeep-webhook-1", "nodekeep-capture-1", "nodekeep-verify-1"

		item      = "nodepolicy/default: "
		kept      = "what was accepted last stays in force (key policy.json of ConfigMap nodekeep-accepted)"
		byDefault = "none was accepted before, so the default policy is in force"
		reason    = `spec.cordon: Unsupported value: "keeep": supported values: "ignore", "keep"; ` +
			`spec.retention: Invalid value: "5s": must not be shorter than 10m, or Nodes that only restart would be forgotten; 0 keeps records for ever`
	)
	wrong := policytest.Manifest("cordon: keeep\nretention: 5s")
	nothingAccepted := func(s *Installation) { s.AcceptedConfigMap = Absent[*corev1.ConfigMap]() }
	denied := NotKnown[*corev1.ConfigMap](Unknown{Reason: "you may not get configmaps", Remedy: Remedy{Text: "An administrator can grant it:"}})
	requireFindings(t, map[string]breakage{
		"it cannot be used, all errors of it": {
			func(s *Installation) { s.setPolicy(wrong) }, []string{"policy: error: " + item + "it cannot be used, and " + kept + ": " + reason},
		},
		"it cannot be used, and none was accepted": {
			func(s *Installation) { s.setPolicy(wrong); nothingAccepted(s) }, []string{"policy: error: " + item + "it cannot be used, and " + byDefault + ": " + reason},
		},
		"it does not exist": {
			func(s *Installation) { s.Policy = Absent[*unstructured.Unstructured]() },
			[]string{"policy: warning: " + item + "it does not exist: " + kept},
		},
		"it does not exist, and none was accepted: all is as at first": {
			func(s *Installation) { s.Policy = Absent[*unstructured.Unstructured](); nothingAccepted(s) },
			nil,
		},
		"the API server knows no NodePolicies": {
			func(s *Installation) { s.Policy = Absent[*unstructured.Unstructured](); s.remove(crdObject) },
			[]string{"policy: warning: " + crdObject + ": it does not exist: the policy cannot be changed; what was accepted last stays in force"},
		},
		"capture has accepted nothing yet": {
			nothingAccepted,
			[]string{"policy: warning: " + acceptedObject + ": it has no copy of the policy (key policy.json): if the NodePolicy is deleted or cannot be used, a process that starts takes the default policy"},
		},
		"a process has not read it": {
			func(s *Installation) {
				s.follow(map[string]any{webhookPod: int64(3), capturePod: int64(4), verifyPod: int64(4), "deleted-1": int64(2)})
			},
			[]string{"policy: warning: " + item + "it is not in force everywhere: Not read yet by nodekeep-webhook-1: the policy's generation 4."},
		},
		"no process says which one it has read": {
			func(s *Installation) { s.follow(nil) },
			[]string{"policy: warning: " + item + "it is not in force everywhere: Not read yet by nodekeep-capture-1, nodekeep-verify-1, nodekeep-webhook-1: the policy's generation 4."},
		},
		"which processes there are is not known": {
			func(s *Installation) {
				s.follow(map[string]any{webhookPod: int64(3)})
				s.Pods = NotKnown[[]corev1.Pod](Unknown{Reason: "you may not list pods", Remedy: Remedy{Text: "An administrator can grant it:"}})
			},
			[]string{"versions: unknown: : you may not list pods", "policy: unknown: " + item + "you may not list pods"},
		},
		"every process has read it": {
			func(s *Installation) {
				s.follow(map[string]any{webhookPod: int64(4), capturePod: int64(4), verifyPod: int64(4), "invented": int64(99)})
			}, nil,
		},
		"only the rules in force are noted": {
			func(s *Installation) { delete(s.AcceptedConfigMap.Value.Data, store.AcceptedPolicy) },
			[]string{"policy: warning: " + acceptedObject + ": it has no copy of the policy..."},
		},
		"what was accepted is not known, and not needed": {
			func(s *Installation) { s.AcceptedConfigMap = denied },
			[]string{"policy: unknown: " + acceptedObject + ": you may not get configmaps", "label-rules: unknown: " + acceptedObject + ": you may not get configmaps"},
		},
	})
}

func TestWhileThePolicyCannotBeUsedChecksGoByWhatWasAcceptedLast(t *testing.T) {
	seen := healthy(t)
	seen.accepts(map[string]string{store.AcceptedPolicy: "{}", store.AcceptedBefore: inJSON(t, policytest.Manifest("labels: {protected: inline}"))})
	inForce := func(reason string) {
		p, err := seen.PolicyInForce()
		require.NoError(t, err, reason)
		assert.True(t, p.RestoresInline(), reason)
	}
	seen.setPolicy(policytest.Manifest("retention: 5s"))
	inForce("it is wrong")
	seen.Policy = Absent[*unstructured.Unstructured]()
	inForce("it does not exist")
	assert.Equal(t, []string{`kubectl -n nodekeep-system get configmap/nodekeep-accepted -o jsonpath='{.data.before\.json}' | kubectl create -f -`},
		resultOf(t, RunChecks(seen, nil), checkPolicy).Findings[0].Commands)
	seen.AcceptedConfigMap = Reading[*corev1.ConfigMap]{}
	_, err := seen.PolicyInForce()
	require.ErrorIs(t, err, errNoPolicy)
	seen.accepts(map[string]string{})
	p, err := seen.PolicyInForce()
	require.NoError(t, err)
	assert.Equal(t, policy.Default().RulesHash(), p.RulesHash())
	assert.False(t, p.RestoresInline())
}
