package view

import (
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
)

// Judgement is what a policy says of the labels, taints and annotations of one Node. All commands decide by it.
type Judgement struct {
	metadata policy.Metadata
	policy   policy.Policy
}

// Judge looks at a Node together with its record, which shows whose a label is that nodekeep has restored.
func (s NodeState) Judge(in capture.Circumstances) Judgement {
	return Judgement{s.metadata(in), in.Policy}
}

// Items are what the Node shows, with their values.
func (j Judgement) Items() map[string]string { return j.metadata.Items }

// Keeps reports whether an item is kept, and why.
func (j Judgement) Keeps(item string) (keeps bool, why string) {
	verdict := j.policy.Judge(j.metadata, item)
	return verdict.Keeps, verdict.Why()
}

// setters are the clients that set an item, as managedFields show them. Of a value that nodekeep has restored, the record may have them. The lists
// of taints in managedFields do not show which client set one of them.
func (j Judgement) setters(item string) (managers []string) {
	if managers = j.metadata.Owners[item]; len(managers) > 0 {
		return managers
	}
	e, recorded := j.metadata.Record.Entry(item)
	if value, shown := j.metadata.Items[item]; !recorded || e.Removed || shown && value != e.Value {
		return nil
	}
	for _, manager := range e.Owners.Managers() {
		managers = append(managers, manager.Name)
	}
	slices.Sort(managers)
	return slices.Compact(managers)
}

// unexpected reports whether an item is kept that no known client of operators has set. The policy does not name it, and it is known who set it.
func (j Judgement) unexpected(item string) bool {
	managers := j.setters(item)
	return len(managers) > 0 && !j.policy.Names(item) && !slices.ContainsFunc(managers, func(manager string) bool {
		alone := []string{manager}
		return j.policy.OfOperators(alone) || policy.LostOwners(alone)
	})
}

// why is the reason of [Judgement.Keeps] and, of what is kept, who has set it.
func (j Judgement) why(item string) (keeps bool, why string) {
	keeps, why = j.Keeps(item)
	managers := strings.Join(j.setters(item), ", ")
	switch {
	case !keeps || managers == "" || strings.Contains(why, managers):
		return keeps, why
	case j.unexpected(item):
		return keeps, why + "; set by " + managers + ", not a known client of operators"
	default:
		return keeps, why + "; set by " + managers
	}
}
