package doctor

import (
	"cmp"
	"errors"
	"strings"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// errNoPolicy reports that the policy in force is not known.
var errNoPolicy = errors.New("the policy is not known")

// PolicyInForce returns the policy that all processes follow, as far as the cluster shows it. It is that of the NodePolicy, or what is in force instead. It is
// an error if it is not known.
func (s Installation) PolicyInForce() (policy.Policy, error) {
	in, err := s.nodepolicyInForce()
	return in.Policy, err
}

// nodepolicyInForce returns the policy in force and where it comes from: the NodePolicy, a copy that was accepted earlier, or the defaults.
func (s Installation) nodepolicyInForce() (inForce nodepolicy.InForce, err error) {
	var object []byte
	switch {
	case s.Policy.Found:
		if object, err = s.Policy.Value.MarshalJSON(); err != nil {
			return inForce, err
		}
	case !s.Policy.Absent:
		return inForce, errNoPolicy
	}
	var accepted map[string]string
	if s.AcceptedConfigMap.Found {
		accepted = s.AcceptedConfigMap.Value.Data
	}
	if inForce = nodepolicy.InForceOf(object, accepted, s.Gate()); inForce.Problem != nil && !s.AcceptedConfigMap.isKnown() {
		err = errNoPolicy
	}
	return inForce, err
}

// judgePolicy judges whether there is a policy that can be used, and whether it outlasts a loss of the object.
func judgePolicy(seen Installation) answer {
	a := answer{okText: "valid"}
	seen.compare(&a, checkPolicy)
	addUnknown(&a, policyObject, seen.Policy)
	if addUnknown(&a, acceptedObject, seen.AcceptedConfigMap); !seen.Policy.isKnown() {
		return a
	}
	inForce, err := seen.nodepolicyInForce()
	fallback := view.InForceInstead(inForce)
	if err != nil {
		fallback = "what was accepted last stays in force"
	}
	switch {
	case seen.Policy.Found && inForce.Problem != nil:
		a.add(Error, policyObject,
			newRemedy("Correct it. The check names all errors:", seen.policyTo("nodekeep check -"), "kubectl edit "+policyObject),
			"it cannot be used, and %s: %s", fallback, strings.ReplaceAll(strings.TrimPrefix(inForce.Problem.Error(), "read policy: "), "\n", "; "))
	case seen.Policy.Absent && seen.object(crdObject).Live.Absent: // which is a finding already
	case err == nil && inForce.Default():
		a.okText = "there is none, so the default policy is in force"
	case seen.Policy.Absent:
		a.add(Warning, policyObject,
			newRemedy("To return to the defaults, create it with an empty spec. To create it of what was accepted:", seen.policyTo("kubectl create -f -")),
			"it does not exist: %s", fallback)
	case seen.Policy.Found && seen.AcceptedConfigMap.isKnown() && (seen.AcceptedConfigMap.Absent || seen.AcceptedConfigMap.Value.Data[store.AcceptedPolicy] == ""):
		a.add(Warning, acceptedObject, newRemedy("capture's leader writes it, within seconds. See why it does not:", seen.logsCommand(CaptureDeployment)),
			"it has no copy of the policy (key %s): if the NodePolicy is deleted or cannot be used, a process that starts takes the default policy", store.AcceptedPolicy)
	case seen.Policy.Found:
		addUnknown(&a, policyObject, seen.Pods)
		if behind := inForce.Behind(seen.Pods.Value); len(behind) > 0 {
			a.add(Warning, policyObject, newRemedy("Wait a minute. Then see why they do not read it:", seen.kubectl("logs --selector %s --prefix", PodSelector)),
				"it is not in force everywhere: %s", view.OldPolicySentence(inForce, behind))
		}
	}
	return a
}

// policyTo hands the NodePolicy to a command. If there is none, it is what is in force instead.
func (s Installation) policyTo(command string) string {
	inForce, err := s.nodepolicyInForce()
	switch {
	case !s.Policy.Absent:
		return "kubectl get " + policyObject + " -o yaml | " + command
	case err == nil && inForce.AcceptedKey == "":
		return "echo '{apiVersion: nodekeep.dev/v1alpha1, kind: NodePolicy, metadata: {name: default}}' | " + command
	}
	return s.kubectl(`get %s -o jsonpath='{.data.%s}' | %s`, acceptedObject, strings.ReplaceAll(cmp.Or(inForce.AcceptedKey, store.AcceptedPolicy), ".", `\.`), command)
}

// requirePolicy returns the policy in force, for a check of an object. If it is not known, the answer says so, and ok is false.
func (s Installation) requirePolicy(a *answer, object string) (p policy.Policy, ok bool) {
	p, err := s.PolicyInForce()
	if err != nil {
		a.add(SeverityUnknown, object, fixFirst(checkPolicy), "what the policy says of it is not known, since the policy cannot be read")
	}
	return p, err == nil
}

// judgeLabelRules judges whether the rules for labels may remove and change labels.
func judgeLabelRules(seen Installation) answer {
	var a answer
	if addUnknown(&a, acceptedObject, seen.AcceptedConfigMap); !seen.AcceptedConfigMap.isKnown() {
		return a
	}
	inForce, ok := seen.requirePolicy(&a, acceptedObject)
	if !ok {
		return a
	}
	switch rules, state := inForce.RulesHash(), seen.rulesState(inForce); {
	case state == rulesHeld:
		a.add(Warning, acceptedObject, seen.endHolding(inForce), "%s", view.HeldSentence(rules, seen.heldUntil()))
	case state == rulesAccepted:
		a.okText = "accepted: " + view.RulesNamed(rules) + "; capture follows within seconds"
	case rules == policy.NoRules:
		a.okText = "the policy has none"
	default:
		a.okText = "rules " + rules + " are in force"
	}
	if len(inForce.LabelRules().Asks()) > 0 {
		addUnknown(&a, "", seen.Nodes)
	}
	a.addMissingFacts(seen.Nodes.Value.Missing)
	return a
}

// addMissingFacts adds notes of facts that rules ask for and no Node has.
func (a *answer) addMissingFacts(facts []impact.MissingFact) {
	for _, fact := range facts {
		a.add(Note, "", newRemedy(fact.Next, fact.Commands...), "%s", fact.Description)
	}
	if len(facts) > 0 {
		a.okText += "; see the notes below"
	}
}

// heldUntil says until when rules that are not in force only add labels.
func (s Installation) heldUntil() string {
	inForce, err := s.nodepolicyInForce()
	if err != nil || !s.AcceptedConfigMap.Found {
		return view.HeldUntil(inForce, "")
	}
	return view.HeldUntil(inForce, s.AcceptedConfigMap.Value.Data[store.RulesAccepted])
}

// endHolding returns how rules get in force that only add labels. Until capture has counted what they change, there is nothing to accept.
func (s Installation) endHolding(p policy.Policy) Remedy {
	if s.Policy.Found && stringAt(s.Policy.Value.Object, "status", "held", "rules") == p.RulesHash() {
		return acceptRules(p)
	}
	return newRemedy("Wait a minute. Then see why capture does not count:", s.logsCommand(CaptureDeployment))
}

// acceptRules returns how rules are accepted. Those that finish a migration are accepted by the command that looks at what selects on the old key.
func acceptRules(p policy.Policy) Remedy {
	accept := "nodekeep accept rules " + p.RulesHash()
	remedy := newRemedy("See on how many Nodes; then accept them, or take the change of the policy back:", accept+" --dry-run", accept)
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

func (s Installation) rulesState(p policy.Policy) rulesState {
	inForce, accepted := policy.NoRules, ""
	if s.AcceptedConfigMap.Found {
		data := s.AcceptedConfigMap.Value.Data
		if rules, ok := data[store.RulesInForce]; ok {
			inForce = rules
		}
		accepted = data[store.RulesAccepted]
	}
	switch rules := p.RulesHash(); {
	case rules == inForce:
		return rulesInForce
	case rules == accepted, p.AcceptsRules():
		return rulesAccepted
	default:
		return rulesHeld
	}
}
