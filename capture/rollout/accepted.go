package rollout

import (
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// mostAccepted is how many bytes the two policies that were accepted last may have together. A ConfigMap takes 1 MiB, with all else that it has.
const mostAccepted = 1 << 20 * 9 / 10

// acceptedChange returns the keys to write so that ConfigMap [store.AcceptedName], which has that data, has the policy in force and the one that was
// accepted before; nil: nothing. A former value that is no valid policy is not kept: a client has written it.
func acceptedChange(data map[string]string, manifest string, gate policy.Gate) map[string]*string {
	former := data[store.AcceptedPolicy]
	if former == manifest {
		return nil
	}
	change := map[string]*string{store.AcceptedPolicy: &manifest}
	prev, found := data[store.AcceptedBefore]
	if _, err := policy.LoadObject([]byte(former), gate); err == nil {
		prev = former
		change[store.AcceptedBefore] = &prev
	}
	if found && len(manifest)+len(prev) > mostAccepted {
		change[store.AcceptedBefore] = nil
	} else if len(manifest)+len(prev) > mostAccepted {
		delete(change, store.AcceptedBefore)
	}
	return change
}
