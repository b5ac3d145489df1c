package capture

import (
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// complete gives what is still missing and lifts the gate with it, unless something was refused.
func complete(record store.Record, seen *Node, event Event, p policy.Policy) Plan {
	give, refused := split(missing(record, seen, p), seen.Refused)
	if len(give) > 0 {
		return Plan{
			Step: Complete, Give: give, Stamp: stampAfter(seen, give),
			LiftGate: len(refused) == 0 && p.Gate().On(seen.Taints),
		}
	}
	if len(refused) > 0 {
		return Plan{Step: Nothing} // the gate stays until a person lifts it or the policy changes
	}
	return liftOrNothing(seen, event, p)
}

// stampAfter is the Node's stamp once it was given the labels; nil where its annotations have no room for one.
func stampAfter(seen *Node, give map[string]string) *policy.Stamp {
	stamp := seen.Stamp.Given(slices.Collect(maps.Keys(give)))
	if !stamp.Fits(seen.AnnotationBytes) {
		return nil
	}
	return &stamp
}

func liftOrNothing(seen *Node, event Event, p policy.Policy) Plan {
	if event == Present && !seen.deleting() && p.Gate().On(seen.Taints) {
		return Plan{Step: Lift, LiftGate: true}
	}
	return Plan{Step: Nothing}
}

// whole reports whether the object has all that it can be given.
func whole(prev store.Record, seen *Node, p policy.Policy) bool {
	give, _ := split(missing(prev, seen, p), seen.Refused)
	return len(give) == 0
}

// split separates what the API server refused on this object before.
func split(missing map[string]string, refusedKeys map[string]bool) (give map[string]string, refused []string) {
	give = map[string]string{}
	for key, value := range missing {
		if refusedKeys[key] {
			refused = append(refused, key)
		} else {
			give[key] = value
		}
	}
	return give, refused
}
