package capture_test

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// The keys that clients use. Kubelets may set the labels disk and team, and may register with taints.
const keyCount = 5

var keys = [keyCount]string{"disk", "maintenance:NoExecute", "node-role.kubernetes.io/worker", "team", "tenant:NoSchedule"}

// ruleTaint follows the label team in scenarios that have the rule.
const ruleTaint = "team:NoSchedule"

func isTaintKey(k int) bool { return strings.Contains(keys[k], ":") }

// isProtected reports whether no kubelet may set the label.
func isProtected(k int) bool { return strings.HasPrefix(keys[k], "node-role.kubernetes.io/") }

// scenario is what may happen in one cluster, and how often. The fractions are chances.
type scenario struct {
	names         []string
	keys          []int // those that clients use
	rounds, steps int
	webhooks      int
	captures      int  // how many processes of capture there may be at a time
	twoLeaders    bool // two of them may act at the same time
	gatePolicy    bool
	guards        bool // the guard policies are in force
	labels        string
	policies      bool // the policy changes, and processes read it at different times
	rules         bool

	finalizers, ownLabels, ownTaints, otherCreators, kubeletGates float64
	lags, coalesce, interleave, crashes, errors                   float64
	denials, vetoes, lateWrites, otherMachines                    float64
	admission, forges, unstamps                                   float64 // other admission policies; kubelets; clients
	foreign                                                       float64 // a record of another cluster is there from the beginning
	merges                                                        float64 // the API server loses managers
	losses                                                        float64 // clients remove records of Nodes that live, or put older ones back

	collects  bool // records of deleted Nodes are collected
	retention string
	waits     bool // capture waits before it writes a record of a busy Node, or sets again what another client undid
}

func newScenario(rng *rand.Rand) scenario {
	part := func(chance, widest float64) float64 {
		if rng.Float64() < chance {
			return rng.Float64() * widest
		}
		return 0
	}
	s := scenario{
		names: []string{"n1"}, keys: rng.Perm(keyCount)[:1+rng.IntN(keyCount)], rounds: 1 + rng.IntN(4), steps: 10 + rng.IntN(110),
		webhooks: 1 + rng.IntN(2), captures: 1 + rng.IntN(2), twoLeaders: rng.IntN(2) == 0, gatePolicy: rng.IntN(3) > 0, guards: rng.IntN(3) > 0,
		finalizers: part(.4, .8), ownLabels: part(.5, .6), ownTaints: part(.2, .5), otherCreators: part(.3, .5), kubeletGates: part(.3, 1),
		lags: part(.5, .7), coalesce: part(.4, .7), interleave: part(.7, .6), crashes: part(.4, .1), errors: part(.4, .3),
		denials: part(.3, .3), otherMachines: part(.2, .8), vetoes: part(.3, .5), lateWrites: part(.3, .5),
		admission: part(.3, .5), forges: part(.4, .8), unstamps: part(.2, 1), foreign: part(.2, 1),
	}
	slices.Sort(s.keys)
	s.labels = []string{"", "", "", "onConflict: restoreStored", "protected: never"}[rng.IntN(5)]
	s.policies, s.rules, s.waits = rng.IntN(3) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		s.names = append(s.names, "n2")
	}
	s.losses, s.merges = part(.3, 1), part(.3, 1)
	s.collects, s.retention = rng.IntN(2) == 0, keptForEver
	if s.collects && rng.IntN(3) == 0 {
		s.retention = keptShortly
	}
	return s
}

// neverRestores reports whether the policy never restores the key.
func (s scenario) neverRestores(k int) bool { return s.labels == "protected: never" && isProtected(k) }
