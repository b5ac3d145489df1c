package doctor

import (
	"errors"
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/policy"
)

// Gate is the key of the gate's taint, as the off switch of the gate policy has it.
func (s Seen) Gate() policy.Gate {
	if key := s.Policy.Value; s.Policy.Found && key.Data[gateKey] != "" {
		return policy.Gate(key.Data[gateKey])
	}
	return policy.DefaultGate
}

// errNoPolicy says that the policy in force is not known.
var errNoPolicy = errors.New("the policy is not known")

// InForce is the policy that both processes follow, as far as the cluster tells: that of the ConfigMap, or the default where
// there is none.
func (s Seen) InForce() (policy.Policy, error) {
	switch {
	case s.Policy.Absent:
		return policy.Default().WithGate(s.Gate()), nil
	case !s.Policy.Found:
		return policy.Policy{}, errNoPolicy
	}
	return policy.Load([]byte(s.Policy.Value.Data[policyKey]), s.Gate())
}

// judgePolicy says whether the policy can be used.
func judgePolicy(seen Seen) answer {
	a := answer{ok: "valid"}
	const object = "configmap/" + policyName
	lacks(&a, object, seen.Policy)
	if seen.Policy.Absent {
		a.ok = "no ConfigMap " + policyName + ": the default"
		if set(seen.Webhook, "policy") || set(seen.Capture, "policy") {
			a.add(Finding{Severity: Error, Object: object, What: "it does not exist, and the Deployments mount it: no pod starts", Remedy: reinstall()})
		}
		return a
	}
	if _, err := seen.InForce(); seen.Policy.Found && err != nil {
		a.add(Finding{
			Severity: Error, Object: object,
			What: "the last good policy stays in force, and a process that starts does not run: " + strings.ReplaceAll(err.Error(), "\n", "; "),
			Remedy: Remedy{Text: "Mend it; the check names the lines:", Commands: []string{
				fmt.Sprintf(`kubectl -n %s get %s -o jsonpath='{.data.policy\.yaml}' | nodekeep policy check -`, seen.Namespace, object),
				fmt.Sprintf("kubectl -n %s edit %s", seen.Namespace, object),
			}},
		})
	}
	return a
}
