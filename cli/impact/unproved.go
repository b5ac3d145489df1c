package impact

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/verify"
)

// Proofs sum up what the Nodes of a cluster show of the checks of profiles. They keep no Nodes.
type Proofs struct {
	profiles verify.Profiles
	gate     string
	seen     map[string]proof // by the profile's name
}

// proof is what the Nodes of one profile show.
type proof struct {
	selects, proved, open bool
}

// NewProofs begins with no Node; gate is the key of the gate's taint.
func NewProofs(profiles verify.Profiles, gate string) *Proofs {
	return &Proofs{profiles: profiles, gate: gate, seen: map[string]proof{}}
}

// Add looks at one Node.
func (p *Proofs) Add(node *corev1.Node) {
	shows := p.profiles.Shows(node, p.gate)
	seen := p.seen[shows.Profile]
	p.seen[shows.Profile] = proof{selects: true, proved: seen.proved || shows.Proves, open: seen.open || shows.Open}
}

// Unproved is a profile that selects Nodes, and whose checks no Node and no trial has passed.
type Unproved struct {
	Profile string              `json:"profile"`
	Reason  string              `json:"why"`
	Trial   *verify.SavedReport `json:"trial,omitempty"` // the last one, which did not pass; nil: none has ended
}

// Line says it to operators.
func (u Unproved) Line() string { return "profile " + u.Profile + ": not yet proved: " + u.Reason }

// UnprovedByNodes returns the names of those that the Nodes do not prove. Only trials can.
func (p *Proofs) UnprovedByNodes() (names []string) {
	for _, profile := range p.profiles.All() {
		if seen := p.seen[profile.Name]; seen.selects && !seen.proved && profile.CanBeProved() {
			names = append(names, profile.Name)
		}
	}
	return names
}

// Unproved returns the profiles that neither a Node nor a trial proves, in the order of the policy. Trials are the last ones of profiles, by name.
func (p *Proofs) Unproved(trials map[string]verify.SavedReport, now time.Time) (all []Unproved) {
	for _, name := range p.UnprovedByNodes() {
		profile, _ := p.profiles.Named(name)
		item := Unproved{Profile: name}
		trial := trials[name]
		switch ended := trial.TrialOf(profile); {
		case !profile.Triable():
			item.Reason = "it requires checks of kind container and kubelet alone, which are tried on no open Node; the first new Node that passes proves it"
		case ended && trial.Result == verify.VerdictPassed:
			continue
		case ended:
			retryHint := "a controller that leads tries again by itself"
			if !p.seen[name].open {
				retryHint = "a controller that leads tries it again on the next open Node that it selects"
			}
			item.Reason, item.Trial = trial.TrialWhy(duration.HumanDuration(now.Sub(trial.Time))+" ago")+"; "+retryHint, &trial
		case !p.seen[name].open:
			item.Reason = "no open Node of it to try on"
		default:
			item.Reason = "no trial on an open Node has ended yet"
		}
		all = append(all, item)
	}
	return all
}
