package impact

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// ProfileFacts are what a cluster has of the objects that profiles name.
type ProfileFacts struct {
	DNS             string // the Service that the controller takes for that of the cluster's DNS; empty: not known
	ChecksNamespace string
	// Services and DaemonSets are by NAMESPACE/NAME. A nil value is an object that does not exist. A missing key is one that could not be read.
	Services   map[string]*ServiceFacts
	DaemonSets map[string]*appsv1.DaemonSet
	// OtherDNS are DNS Services that exist under other names that platforms use.
	OtherDNS []string
}

// ServiceFacts are a Service, and how many endpoints of it are ready.
type ServiceFacts struct {
	Service *corev1.Service
	Ready   *int // nil: not known
}

// PlatformDNS returns the names of the DNS Service on platforms, but for one.
func PlatformDNS(excluded string) []string {
	names := []string{
		"kube-system/kube-dns",                  // kubeadm, k3s, EKS, GKE, AKS
		"kube-system/rke2-coredns-rke2-coredns", // RKE2
		"openshift-dns/dns-default",             // OpenShift
		"kube-system/coredns",                   // Kubespray
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == excluded })
}

// Hindrance is how an obstacle affects Nodes.
type Hindrance string

// The kinds of hindrances, the worst first.
const (
	HindersAll  Hindrance = "all"  // no Node of the profile can pass
	HindersSome Hindrance = "some" // some Nodes cannot pass, or none can at present
	HindersNone Hindrance = "none" // nothing is wrong, and an operator may want to know
)

// Obstacle is why Nodes of profiles cannot pass, or may not, and what to do about it.
type Obstacle struct {
	Profiles    []string  `json:"profiles"`
	Check       string    `json:"check,omitempty"`
	Hinders     Hindrance `json:"hinders"`
	Description string    `json:"what"`
	Next        string    `json:"next"`
	Commands    []string  `json:"commands,omitempty"` // to be run as they are
}

// Sentence says whose obstacle it is, and what it is.
func (o Obstacle) Sentence() string {
	place := "profile " + o.Profiles[0]
	if len(o.Profiles) > 1 {
		place = "profiles " + strings.Join(o.Profiles, ", ")
	}
	if o.Check != "" {
		place += ", check " + o.Check
	}
	return place + ": " + o.Description
}

// Text returns all of it in one line.
func (o Obstacle) Text() string {
	if len(o.Commands) == 0 {
		return o.Sentence() + ". " + o.Next + "."
	}
	return o.Sentence() + ". " + o.Next + " " + strings.Join(o.Commands, "; ")
}

// judgedProfile is one profile, and what is known of the cluster.
type judgedProfile struct {
	verify.CompiledProfile
	facts     ProfileFacts
	nodes     *nodesOfProfile // nil: not known
	coldStart bool            // no Node takes workloads, or it is not known; then Services may have no endpoint yet
	found     []Obstacle
}

func (p *judgedProfile) addFound(check string, hinders Hindrance, next string, commands []string, description string, args ...any) {
	p.found = append(p.found, Obstacle{Profiles: []string{p.Name}, Check: check, Hinders: hinders, Description: fmt.Sprintf(description, args...), Next: next, Commands: commands})
}

// Obstacles returns what keeps Nodes of profiles from ever passing, as far as the cluster shows it. What is not known is no obstacle. Checks that are
// not required keep no Node from passing. Nodes is nil if the Nodes are not known.
func Obstacles(profiles verify.Profiles, facts ProfileFacts, nodes *SelectedNodes) (all []Obstacle) {
	for _, profile := range profiles.All() {
		p := &judgedProfile{CompiledProfile: profile, facts: facts, coldStart: nodes == nil || nodes.schedulable == 0}
		if nodes != nil {
			p.nodes = nodes.selected[profile.Name]
		}
		for _, check := range profile.Checks {
			if check.IsRequired() {
				p.judgeCheck(check)
			}
		}
		p.judgeWait()
		if nodes != nil && nodes.nodes > 0 && p.nodes.all == 0 {
			p.addFound("", HindersNone, "If it should select some, compare its nodeSelector with their labels. The first profile that selects a Node decides:",
				[]string{"kubectl get nodes --show-labels"}, "it selects no Node; the cluster has %s", nodeCount(nodes.nodes))
		}
		for _, obstacle := range p.found {
			all = addObstacle(all, obstacle)
		}
	}
	slices.SortStableFunc(all, func(a, b Obstacle) int { return a.Hinders.rank() - b.Hinders.rank() })
	return all
}

func (h Hindrance) rank() int {
	return slices.Index([]Hindrance{HindersAll, HindersSome, HindersNone}, h)
}

// addObstacle adds an obstacle, or the profile to the same obstacle of another profile.
func addObstacle(all []Obstacle, obstacle Obstacle) []Obstacle {
	for i := range all {
		match := &all[i]
		if match.Check == obstacle.Check && match.Hinders == obstacle.Hinders && match.Description == obstacle.Description && match.Next == obstacle.Next {
			if !slices.Contains(match.Profiles, obstacle.Profiles[0]) {
				match.Profiles = append(match.Profiles, obstacle.Profiles[0])
			}
			return all
		}
	}
	return append(all, obstacle)
}
