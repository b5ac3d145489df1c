package doctor

import (
	"errors"
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
)

// errNoPolicy says that the policy in force is not known.
var errNoPolicy = errors.New("the policy is not known")

// InForce is the policy that both processes follow, as far as the cluster shows it: that of the ConfigMap, or the default where
// there is none.
func (s Seen) InForce() (policy.Policy, error) {
	switch found := s.policy(); {
	case found.Absent:
		return policy.Default().WithGate(s.Gate()), nil
	case !found.Found:
		return policy.Policy{}, errNoPolicy
	default:
		return policy.Load([]byte(found.Value.Data[policyKey]), s.Gate())
	}
}

// judgePolicy says whether the policy can be used.
func judgePolicy(seen Seen) answer {
	a := answer{ok: "valid"}
	seen.compare(&a, checkPolicy)
	if _, err := seen.InForce(); seen.policy().Found && err != nil {
		a.add(Finding{
			Severity: Error, Object: policyObject,
			What: "the last good policy stays in force, and a process that starts does not run: " + strings.ReplaceAll(err.Error(), "\n", "; "),
			Remedy: Remedy{Text: "Mend it; the check names the lines:", Commands: []string{
				fmt.Sprintf(`kubectl -n %s get %s -o jsonpath='{.data.policy\.yaml}' | nodekeep policy check -`, seen.Namespace, policyObject),
				fmt.Sprintf("kubectl -n %s edit %s", seen.Namespace, policyObject),
			}},
		})
	}
	return a
}

// judgeLabelRules says whether the rules for labels may remove and change labels.
func judgeLabelRules(seen Seen) answer {
	var a answer
	object := "configmap/" + capture.RulesName
	lacks(&a, object, seen.LabelRules)
	inForce, err := seen.InForce()
	switch {
	case !seen.LabelRules.asked():
		return a
	case errors.Is(err, errNoPolicy):
		a.add(Finding{Severity: Lacking, Object: object, What: "the rules of the policy are not known, since the policy cannot be read; see " + checkPolicy})
		return a
	case err != nil:
		return answer{ok: "the rules of the last good policy count; see " + checkPolicy}
	}
	rules, known, accepted := inForce.RulesHash(), policy.NoRules, ""
	if state := seen.LabelRules.Value; seen.LabelRules.Found {
		known, accepted = state.Data[capture.RulesInForce], state.Data[capture.RulesAccepted]
	}
	switch rules {
	case known:
		if a.ok = "rules " + rules + " are in force"; rules == policy.NoRules {
			a.ok = "the policy has none"
		}
	case accepted:
		a.ok = "rules " + rules + " are accepted; capture follows within seconds"
	default:
		a.add(Finding{
			Severity: Warning, Object: object,
			What: "rules " + rules + " of the policy only add labels: they would remove or change labels on many Nodes, or capture has not looked at them yet",
			Remedy: Remedy{Text: "See on how many Nodes; then accept them, or take the change of the policy back:", Commands: []string{
				"nodekeep policy accept " + rules + " --dry-run", "nodekeep policy accept " + rules,
			}},
		})
	}
	return a
}
