package rollout

import (
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// maxAcceptedBytes is how many bytes the two policies that were accepted last may have together. A ConfigMap takes 1 MiB, with all else that it has.
const maxAcceptedBytes = 1 << 20 * 9 / 10

// acceptedUpdate returns the keys to write so that ConfigMap [store.AcceptedConfigMap], which has that data, has the policy in force and the one that was
// accepted before; nil: nothing. A former value that is no valid policy is not kept: a client has written it.
func acceptedUpdate(data map[string]string, manifest string, gate policy.Gate) map[string]*string {
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
	if found && len(manifest)+len(prev) > maxAcceptedBytes {
		change[store.AcceptedBefore] = nil
	} else if len(manifest)+len(prev) > maxAcceptedBytes {
		delete(change, store.AcceptedBefore)
	}
	return change
}
