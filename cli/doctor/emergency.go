package doctor

import (
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/nodepolicy"
)

// emergency reports whether an emergency is declared, as capture and verify see it.
func (s Installation) emergency() bool {
	return nodepolicy.Declaration{Bound: nodepolicy.Binds(s.EmergencyBinding.Value), Granted: nodepolicy.Grants(s.EmergencyRole.Value)}.Holds()
}

// declareEmergency is the command that declares an emergency. Where the API server cannot see one, it deletes what gates Nodes.
const declareEmergency = "nodekeep emergency"

// addUnseenEmergency adds that the API server goes on as if no emergency were declared, by what a dry run returned.
func (a *answer) addUnseenEmergency(object, returned string) {
	a.add(Error, object, newRemedy("It may take some seconds. If it lasts, declare the emergency again. What gates Nodes is then deleted where the API server cannot see an emergency:", declareEmergency),
		"an emergency is declared, and the API server does not see it: %s", returned)
}

// judgeEmergency judges whether an emergency is declared. So nobody forgets to end it.
func judgeEmergency(seen Installation) answer {
	a := answer{okText: "none is declared"}
	binding, role := "rolebinding/"+manifests.EmergencyName, "role/"+manifests.EmergencyName
	addUnknown(&a, role, seen.EmergencyRole)
	addUnknown(&a, binding, seen.EmergencyBinding)
	const end = "nodekeep emergency --end"
	switch {
	case seen.emergency():
		a.add(Warning, binding, newRemedy("Once nodekeep is well, end it. Its plan says which Nodes were not verified:", end+" --dry-run", end),
			"an emergency was declared %s ago, and is not ended", duration.HumanDuration(seen.Now.Sub(seen.EmergencyBinding.Value.CreationTimestamp.Time)))
	case seen.EmergencyBinding.Found != seen.EmergencyRole.Found && len(a.findings) == 0:
		place := role
		if seen.EmergencyBinding.Found {
			place = binding
		}
		a.add(Warning, place, newRemedy("Delete it, or declare the emergency anew:", end, declareEmergency),
			"of the two objects that declare an emergency, only %s is there, so none is declared", place)
	}
	return a
}
