package doctor

import (
	appsv1 "k8s.io/api/apps/v1"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/verify"
)

// ProfileReading is what the cluster has of what profiles name.
type ProfileReading struct {
	Facts  impact.ProfileFacts
	Unread []Unknown // what could not be read of it
}

// Verifier returns the Deployment of the controller that verifies Nodes.
func (s Installation) Verifier() Reading[*appsv1.Deployment] { return s.verifyDeployment() }

// DNSServiceOf returns the DNS Service of the cluster, NAMESPACE/NAME, as the verification controller takes it.
func DNSServiceOf(verifier Reading[*appsv1.Deployment]) string {
	if given, ok := flagOf(verifier, "dns-service"); ok {
		return given
	}
	return defaultDNS
}

// ChecksNamespaceOf returns the namespace of the Pods that check Nodes.
func ChecksNamespaceOf(verifier Reading[*appsv1.Deployment]) string {
	if name, given := flagOf(verifier, "checks-namespace"); given && name != "" {
		return name
	}
	return verify.Namespace
}

// judgeObstacles judges whether Nodes of the profiles can pass in this cluster.
func (s Installation) judgeObstacles(a *answer) {
	if s.Profiles().Empty() {
		return
	}
	addUnknown(a, policyObject, s.ProfileFacts)
	if !s.ProfileFacts.Found {
		return
	}
	for _, unknown := range s.ProfileFacts.Value.Unread {
		a.add(SeverityUnknown, policyObject, unknown.Remedy, "%s", unknown.Reason)
	}
	for _, obstacle := range impact.Obstacles(s.Profiles(), s.ProfileFacts.Value.Facts, s.Nodes.Value.Selected) {
		severity := map[impact.Hindrance]Severity{impact.HindersAll: Error, impact.HindersSome: Warning, impact.HindersNone: Note}[obstacle.Hinders]
		a.add(severity, policyObject, newRemedy(obstacle.Next+finalDot(obstacle.Commands), obstacle.Commands...), "%s", obstacle.Sentence())
	}
}

// finalDot returns how a text ends that commands may follow.
func finalDot(commands []string) string {
	if len(commands) > 0 {
		return ""
	}
	return "."
}

// judgeProofs judges whether the checks of profiles have passed anywhere.
func (s Installation) judgeProofs(a *answer) {
	if !s.Nodes.Found {
		return
	}
	addUnknown(a, policyObject, s.Nodes.Value.Unproved)
	for _, item := range s.Nodes.Value.Unproved.Value {
		severity := Note
		if item.Trial != nil {
			severity = Warning
		}
		a.add(severity, policyObject, newRemedy("See all profiles that are not proved:", "nodekeep list --waiting verification"), "%s", item.Line())
	}
}
