package doctor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/inventory"
)

// judgeInventory reports for each source of the inventory whether rules know its facts, by what capture notes of it.
func judgeInventory(seen Installation) answer {
	a := answer{okText: "the policy has none"}
	object := "configmap/" + inventories.InventoryName
	if addUnknown(&a, object, seen.Inventory); !seen.Inventory.isKnown() {
		return a
	}
	inForce, ok := seen.requirePolicy(&a, object)
	if !ok || len(inForce.Inventory()) == 0 {
		return a
	}
	a.okText = fmt.Sprintf("capture reads all sources (%d)", len(inForce.Inventory()))
	for _, source := range inForce.Inventory() {
		seen.judgeSource(&a, object, source)
	}
	a.addMissingFacts(impact.MissingAttributes(inForce, seen.Inventory.Value))
	return a
}

// judgeSource judges one source by what capture notes of it in an object.
func (s Installation) judgeSource(a *answer, object string, source inventory.Source) {
	find := func(remedy Remedy, format string, args ...any) {
		a.add(Warning, object, remedy, "inventory %s: "+format, append([]any{source.Name}, args...)...)
	}
	log := newRemedy("The log of capture has the error:", s.logsCommand(CaptureDeployment))
	notes := s.Inventory.Value
	status, readable := inventories.SourceStatusOf(notes, source.Name)
	switch {
	case readable:
	case notes == nil || notes.Data[source.Name] == "":
		find(log, "capture has not read it yet: rules do not know its facts")
		return
	default:
		find(newRemedy("capture writes the note anew at its next read, a minute later at most. If this does not help, see which client writes it:",
			s.kubectl("get configmap %s -o yaml --show-managed-fields", inventories.InventoryName)),
			"what capture notes of it cannot be read, so its state is not known")
		return
	}
	s.judgeProblems(a, source.Name, status)
	age := s.Now.Sub(status.Confirmed)
	if status.Failure != "" {
		find(log, "it cannot be read (%s); what it said last stays in force until it is stale", status.Failure)
	}
	switch {
	case status.Confirmed.IsZero():
		find(log, "nothing of it is in force: rules do not know its facts")
	case age > source.StaleAfter:
		find(log, "it last said %s ago what is in force, which is longer than staleAfter (%s): rules do not know its facts, and their labels stay as they are",
			duration.HumanDuration(age), duration.HumanDuration(source.StaleAfter))
	}
	if status.Held != "" && !status.Accepted() {
		accept := "nodekeep accept rules " + status.Held
		find(newRemedy("Correct the inventory, or accept the snapshot:", accept+" --dry-run", accept),
			"snapshot %s is held: it no longer lists %d of %d Nodes, and would remove or change labels on %d of %d Nodes that live. "+
				"What it said before stays in force", status.Held, status.Change.Lost, status.Change.Listed, status.Change.Altered, status.Change.Nodes)
	}
}

// judgeProblems names the Nodes of which a source has something wrong.
func (s Installation) judgeProblems(a *answer, source string, status inventories.SourceStatus) {
	sample := Sample[inventory.Problem]{All: status.ProblemCount, First: status.Problems[:min(len(status.Problems), maxNamed)]}
	for _, problem := range sample.First {
		object := "node/" + problem.Node
		if problem.Node == "" {
			object = ""
		}
		a.add(Warning, object, newRemedy("Correct the inventory. Until then, rules do not know what is wrong, and their labels stay as they are."),
			"inventory %s is wrong: %s", source, problem.Message)
	}
	addRest(a, Warning, sample, "problems of inventory "+source, s.kubectl("get configmap %s -o yaml", inventories.InventoryName))
}
