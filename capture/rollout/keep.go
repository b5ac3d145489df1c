package rollout

import (
	"context"

	"nodekeep.dev/nodekeep/store"
)

// keepAccepted has ConfigMap [store.AcceptedConfigMap] show the policy in force while this process leads, and the one before. A process that starts while
// the NodePolicy is deleted or bad takes it from there. That a client has removed or replaced it changes no policy: it is written again.
func (r *Rollout) keepAccepted(ctx context.Context) {
	manifest := string(r.Manifest())
	if manifest == "" || !r.Controller.Leading() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := r.Controller.CallRecovering("keep accepted policy", "", func() error {
		state, err := r.Notes.Get(ctx, store.AcceptedConfigMap)
		if err != nil {
			return err
		}
		var data map[string]string
		if state != nil {
			data = state.Data
		}
		if change := acceptedUpdate(data, manifest, r.Policy().Gate()); change != nil {
			return r.Notes.Set(ctx, store.AcceptedConfigMap, state != nil, change)
		}
		return nil
	})
	switch {
	case err == nil:
		r.keepFailure = ""
	case ctx.Err() == nil && r.keepFailure != err.Error():
		r.keepFailure = err.Error()
		r.Logger.Warn("policy in force cannot be written; a process that starts while the NodePolicy cannot be used takes an older one", "configmap", store.AcceptedConfigMap, "error", err)
	}
}
