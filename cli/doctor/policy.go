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

// InForce returns the policy that all processes follow, as far as the cluster shows it. It is that of the NodePolicy, or what is in force instead. It is
// an error if it is not known.
func (s Seen) InForce() (policy.Policy, error) {
	in, err := s.policyInForce()
	return in.Policy, err
}

// policyInForce returns where it is from, too.
func (s Seen) policyInForce() (in nodepolicy.InForce, err error) {
	var object []byte
	switch {
	case s.Policy.Found:
		if object, err = s.Policy.Value.MarshalJSON(); err != nil {
			return in, err
		}
	case !s.Policy.Absent:
		return in, errNoPolicy
	}
	var accepted map[string]string
	if s.Accepted.Found {
		accepted = s.Accepted.Value.Data
	}
	if in = nodepolicy.InForceOf(object, accepted, s.Gate()); in.Wrong != nil && !s.Accepted.asked() {
		err = errNoPolicy
	}
	return in, err
}

// judgePolicy judges whether there is a policy that can be used, and whether it outlasts a loss of the object.
func judgePolicy(seen Seen) answer {
	a := answer{ok: "valid"}
	seen.compare(&a, checkPolicy)
	lacks(&a, policyObject, seen.Policy)
	if lacks(&a, acceptedObject, seen.Accepted); !seen.Policy.asked() {
		return a
	}
	in, err := seen.policyInForce()
	fallback := view.Replacement(in)
	if err != nil {
		fallback = "what was accepted last stays in force"
	}
	switch {
	case seen.Policy.Found && in.Wrong != nil:
		a.find(Error, policyObject,
			advice("Correct it. The check names all errors:", seen.policyTo("nodekeep check -"), "kubectl edit "+policyObject),
			"it cannot be used, and %s: %s", fallback, strings.ReplaceAll(strings.TrimPrefix(in.Wrong.Error(), "read policy: "), "\n", "; "))
	case seen.Policy.Absent && seen.object(definitionObject).Found.Absent: // which is a finding already
	case err == nil && in.Default():
		a.ok = "there is none, so the default policy is in force"
	case seen.Policy.Absent:
		a.find(Warning, policyObject,
			advice("To return to the defaults, create it with an empty spec. To create it of what was accepted:", seen.policyTo("kubectl create -f -")),
			"it does not exist: %s", fallback)
	case seen.Policy.Found && seen.Accepted.asked() && (seen.Accepted.Absent || seen.Accepted.Value.Data[store.AcceptedPolicy] == ""):
		a.find(Warning, acceptedObject, advice("capture's leader writes it, within seconds. See why it does not:", seen.logs(CaptureDeployment)),
			"it has no copy of the policy (key %s): if the NodePolicy is deleted or cannot be used, a process that starts takes the default policy", store.AcceptedPolicy)
	case seen.Policy.Found:
		lacks(&a, policyObject, seen.Pods)
		if behind := in.Behind(seen.Pods.Value); len(behind) > 0 {
			a.find(Warning, policyObject, advice("Wait a minute. Then see why they do not read it:", seen.kubectl("logs --selector %s --prefix", PodSelector)),
				"it is not in force everywhere: %s", view.BehindSentence(in, behind))
		}
	}
	return a
}

// policyTo hands the NodePolicy to a command. If there is none, it is what is in force instead.
func (s Seen) policyTo(command string) string {
	in, err := s.policyInForce()
	switch {
	case !s.Policy.Absent:
		return "kubectl get " + policyObject + " -o yaml | " + command
	case err == nil && in.Copy == "":
		return "echo '{apiVersion: nodekeep.dev/v1alpha1, kind: NodePolicy, metadata: {name: default}}' | " + command
	}
	return s.kubectl(`get %s -o jsonpath='{.data.%s}' | %s`, acceptedObject, strings.ReplaceAll(cmp.Or(in.Copy, store.AcceptedPolicy), ".", `\.`), command)
}

// judgedBy returns the policy in force, for a check of an object. If it is not known, the answer says so, and ok is false.
func (s Seen) judgedBy(a *answer, object string) (p policy.Policy, ok bool) {
	p, err := s.InForce()
	if err != nil {
		a.find(Lacking, object, first(checkPolicy), "what the policy says of it is not known, since the policy cannot be read")
	}
	return p, err == nil
}

// judgeLabelRules judges whether the rules for labels may remove and change labels.
func judgeLabelRules(seen Seen) answer {
	var a answer
	if lacks(&a, acceptedObject, seen.Accepted); !seen.Accepted.asked() {
		return a
	}
	inForce, ok := seen.judgedBy(&a, acceptedObject)
	if !ok {
		return a
	}
	switch rules, state := inForce.RulesHash(), seen.rulesState(inForce); {
	case state == rulesHeld:
		a.find(Warning, acceptedObject, seen.endHolding(inForce), "%s", view.HeldSentence(rules, seen.heldUntil()))
	case state == rulesAccepted:
		a.ok = "accepted: " + view.RulesNamed(rules) + "; capture follows within seconds"
	case rules == policy.NoRules:
		a.ok = "the policy has none"
	default:
		a.ok = "rules " + rules + " are in force"
	}
	if len(inForce.LabelRules().Asks()) > 0 {
		lacks(&a, "", seen.Nodes)
	}
	a.missing(seen.Nodes.Value.Missing)
	return a
}

// missing adds notes of facts that rules ask for and no Node has.
func (a *answer) missing(facts []impact.MissingFact) {
	for _, fact := range facts {
		a.find(Note, "", advice(fact.Next, fact.Commands...), "%s", fact.Description)
	}
	if len(facts) > 0 {
		a.ok += "; see the notes below"
	}
}

// heldUntil says until when rules that are not in force only add labels.
func (s Seen) heldUntil() string {
	in, err := s.policyInForce()
	if err != nil || !s.Accepted.Found {
		return view.HeldUntil(in, "")
	}
	return view.HeldUntil(in, s.Accepted.Value.Data[store.RulesAccepted])
}

// endHolding returns how rules get in force that only add labels. Until capture has counted what they change, there is nothing to accept.
func (s Seen) endHolding(p policy.Policy) Remedy {
	if s.Policy.Found && text(s.Policy.Value.Object, "status", "held", "rules") == p.RulesHash() {
		return acceptRules(p)
	}
	return advice("Wait a minute. Then see why capture does not count:", s.logs(CaptureDeployment))
}

// acceptRules returns how rules are accepted. Those that finish a migration are accepted by the command that looks at what selects on the old key.
func acceptRules(p policy.Policy) Remedy {
	accept := "nodekeep accept rules " + p.RulesHash()
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
	if s.Accepted.Found {
		data := s.Accepted.Value.Data
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
