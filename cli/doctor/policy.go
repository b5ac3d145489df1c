package doctor

import (
	"errors"
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/policy"
)

// errNoPolicy says that the policy in force is not known.
var errNoPolicy = errors.New("the policy is not known")

// InForce is the policy that both processes follow, as far as the cluster tells: that of the ConfigMap, or the default where
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
