package doctor

import (
	appsv1 "k8s.io/api/apps/v1"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/verify"
)

// Asked is what the cluster has of what profiles name.
type Asked struct {
	Facts  impact.ProfileFacts
	Unread []Unknown // what could not be read of it
}

// Verifier returns the Deployment of the controller that verifies Nodes.
func (s Seen) Verifier() Read[*appsv1.Deployment] { return s.verify() }

// DNSServiceOf returns the DNS Service of the cluster, NAMESPACE/NAME, as the verification controller takes it.
func DNSServiceOf(verifier Read[*appsv1.Deployment]) string {
	if given, ok := flagOf(verifier, "dns-service"); ok {
		return given
	}
	return defaultDNS
}

// ChecksNamespaceOf returns the namespace of the Pods that check Nodes.
func ChecksNamespaceOf(verifier Read[*appsv1.Deployment]) string {
	if name, given := flagOf(verifier, "checks-namespace"); given && name != "" {
		return name
	}
	return verify.Namespace
}

// judgeObstacles judges whether Nodes of the profiles can pass in this cluster.
func (s Seen) judgeObstacles(a *answer) {
	if s.Profiles().Empty() {
		return
	}
	lacks(a, policyObject, s.Asked)
	if !s.Asked.Found {
		return
	}
	for _, unknown := range s.Asked.Value.Unread {
		a.find(Lacking, policyObject, unknown.Remedy, "%s", unknown.Reason)
	}
	for _, obstacle := range impact.Obstacles(s.Profiles(), s.Asked.Value.Facts, s.Nodes.Value.Selected) {
		severity := map[impact.Hindrance]Severity{impact.HindersAll: Error, impact.HindersSome: Warning, impact.HindersNone: Note}[obstacle.Hinders]
		a.find(severity, policyObject, advice(obstacle.Next+ending(obstacle.Commands), obstacle.Commands...), "%s", obstacle.Sentence())
	}
}

// ending returns how a text ends that commands may follow.
func ending(commands []string) string {
	if len(commands) > 0 {
		return ""
	}
	return "."
}

// judgeProofs judges whether the checks of profiles have passed anywhere.
func (s Seen) judgeProofs(a *answer) {
	if !s.Nodes.Found {
		return
	}
	lacks(a, policyObject, s.Nodes.Value.Unproved)
	for _, item := range s.Nodes.Value.Unproved.Value {
		severity := Note
		if item.Trial != nil {
			severity = Warning
		}
		a.find(severity, policyObject, advice("See all profiles that are not proved:", "nodekeep list --waiting verification"), "%s", item.Line())
	}
}
