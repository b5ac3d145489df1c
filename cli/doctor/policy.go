package doctor

import (
	"errors"
	"strings"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// errNoPolicy reports that the policy in force is not known.
var errNoPolicy = errors.New("the policy is not known")

// InForce is the policy that both processes follow, as far as the cluster shows it. It is the policy of the ConfigMap, or the default if there is no
// ConfigMap.
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

// judgePolicy judges whether the policy can be used.
func judgePolicy(seen Seen) answer {
	a := answer{ok: "valid"}
	seen.compare(&a, checkPolicy)
	if _, err := seen.InForce(); seen.policy().Found && err != nil {
		a.find(Error, policyObject,
			advice("Mend it; the check names the lines:", seen.policyTo("nodekeep policy check -"), seen.kubectl("edit %s", policyObject)),
			"the last good policy stays in force, and a process that starts does not run: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return a
}

// policyTo hands the policy file in the cluster to a command.
func (s Seen) policyTo(command string) string {
	return s.kubectl(`get %s -o jsonpath='{.data.policy\.yaml}' | %s`, policyObject, command)
}

// judgedBy is the policy in force, for a check of an object. If the policy is not known or cannot be used, the answer says so, and ok is false.
func (s Seen) judgedBy(a *answer, object string) (p policy.Policy, ok bool) {
	p, err := s.InForce()
	switch {
	case errors.Is(err, errNoPolicy):
		a.find(Lacking, object, first(checkPolicy), "what the policy says of it is not known, since the policy cannot be read")
	case err != nil:
		a.ok = "the last good policy counts; see " + checkPolicy
	}
	return p, err == nil
}

// judgeLabelRules judges whether the rules for labels may remove and change labels.
func judgeLabelRules(seen Seen) answer {
	var a answer
	object := "configmap/" + store.RulesName
	if lacks(&a, object, seen.LabelRules); !seen.LabelRules.asked() {
		return a
	}
	inForce, ok := seen.judgedBy(&a, object)
	if !ok {
		return a
	}
	switch rules, state := inForce.RulesHash(), seen.rulesState(inForce); {
	case state == rulesHeld:
		a.find(Warning, object, acceptRules(inForce),
			"rules %s of the policy only add labels: they would remove or change labels on many Nodes, or capture has not looked at them yet", rules)
	case state == rulesAccepted:
		a.ok = "rules " + rules + " are accepted; capture follows within seconds"
	case rules == policy.NoRules:
		a.ok = "the policy has none"
	default:
		a.ok = "rules " + rules + " are in force"
	}
	return a
}

// acceptRules is how rules are accepted. Those that finish a migration are accepted by the command that looks at what selects on the old key.
func acceptRules(p policy.Policy) Remedy {
	accept := "nodekeep policy accept " + p.RulesHash()
	remedy := advice("See on how many Nodes; then accept them, or take the change of the policy back:", accept+" --dry-run", accept)
	for _, m := range p.Migrations() {
		if m.Phase == policy.MigrateNew {
			remedy.Commands[1] = finishMigration(m.From, m.To)
			break
		}
	}
	return remedy
}

// rulesState shows whether the rules of the policy may remove and change labels.
type rulesState int

const (
	rulesInForce rulesState = iota
	rulesAccepted
	rulesHeld
)

func (s Seen) rulesState(p policy.Policy) rulesState {
	inForce, accepted := policy.NoRules, ""
	if s.LabelRules.Found {
		inForce, accepted = s.LabelRules.Value.Data[store.RulesInForce], s.LabelRules.Value.Data[store.RulesAccepted]
	}
	switch p.RulesHash() {
	case inForce:
		return rulesInForce
	case accepted:
		return rulesAccepted
	default:
		return rulesHeld
	}
}
