package impact

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

// MissingFact is a fact that rules for labels ask for and that no Node has. It says what to do about it, too.
type MissingFact struct {
	Rules       []string `json:"rules"`
	Fact        string   `json:"fact"` // as the policy names it
	Description string   `json:"what"`
	Next        string   `json:"next"`
	Commands    []string `json:"commands,omitempty"` // to be run as they are
}

// Text returns all of it in one line.
func (m MissingFact) Text() string {
	if len(m.Commands) == 0 {
		return m.Description + ". " + m.Next
	}
	return m.Description + ". " + m.Next + " " + strings.Join(m.Commands, "; ")
}

// AskedFacts sums up which facts that rules ask for the Nodes of a cluster have. It keeps no Nodes.
type AskedFacts struct {
	policy policy.Policy
	read   func(node *observe.Node) classify.Facts
	asked  []askedFact
}

// askedFact counts the Nodes of which it is known whether they have the fact.
type askedFact struct {
	classify.Ask
	present bool
	known   int
}

// NewAskedFacts begins with no Node. The functions are the devices and features of a Node. One that is nil could not be read.
func NewAskedFacts(p policy.Policy, devices func(node string) observe.Devices, features func(node string) observe.Features, now time.Time) *AskedFacts {
	a := &AskedFacts{policy: p}
	for _, ask := range p.LabelRules().Asks() {
		a.asked = append(a.asked, askedFact{Ask: ask})
	}
	a.read = func(node *observe.Node) classify.Facts {
		facts := node.Facts(nil, p.LabelRules(), now)
		if devices != nil {
			facts = devices(node.Name).Join(facts)
		}
		if features != nil {
			facts = features(node.Name).Join(facts)
		}
		return facts
	}
	return a
}

// Add looks at one Node.
func (a *AskedFacts) Add(object *corev1.Node) {
	if len(a.asked) == 0 {
		return
	}
	node := observe.FromNodeWithAnnotations(object, a.policy.Annotations())
	if node.Fault != nil {
		return
	}
	facts := a.read(node)
	for i := range a.asked {
		answered, known := a.asked[i].AnsweredBy(facts)
		if known {
			a.asked[i].known++
		}
		a.asked[i].present = a.asked[i].present || answered
	}
}

// Missing returns the facts that no Node has, of those that are known of at least one Node.
func (a *AskedFacts) Missing() (all []MissingFact) {
	for _, fact := range a.asked {
		if fact.present || fact.known == 0 {
			continue
		}
		next, commands := nextOf(fact.Ask)
		all = append(all, MissingFact{
			Rules: fact.Rules, Fact: fact.Fact, Next: next, Commands: commands,
			Description: fmt.Sprintf("%s for %s, which %s", askClause(fact.Rules), fact.Fact, noneOf(fact.known)),
		})
	}
	return all
}

// noneOf says that none of so many Nodes has something.
func noneOf(nodes int) string {
	if nodes == 1 {
		return "the one Node does not have"
	}
	return fmt.Sprintf("none of %d Nodes has", nodes)
}

// askClause begins what is said of rules.
func askClause(rules []string) string {
	if len(rules) == 1 {
		return "rule " + rules[0] + " asks"
	}
	return "rules " + strings.Join(rules, ", ") + " ask"
}

// nextOf returns what to do about a fact that no Node has.
func nextOf(ask classify.Ask) (next string, commands []string) {
	switch ask.Kind {
	case classify.AskArch, classify.AskOS:
		return "Unless such Nodes are to come, correct it. These are there:", []string{"kubectl get nodes -L kubernetes.io/arch,kubernetes.io/os"}
	case classify.AskDeclared:
		return "Correct the name. A kubelet declares a feature only while Kubernetes develops it. What is declared:", []string{
			`kubectl get nodes -o jsonpath='{range .items[*]}{.metadata.name}{"\t"}{.status.declaredFeatures}{"\n"}{end}'`,
		}
	case classify.AskFeature:
		return "Correct the name, or have NFD find it. What is found:", []string{"kubectl get nodefeatures -A -o yaml"}
	case classify.AskDevice:
		return "Correct the name, or install the driver. What drivers list:", []string{"kubectl get resourceslices -o yaml"}
	default:
		return "Correct the name, or install what reports it. What Nodes report:", []string{
			`kubectl get nodes -o jsonpath='{range .items[*]}{.metadata.name}{"\t"}{.status.capacity}{"\n"}{end}'`,
		}
	}
}
