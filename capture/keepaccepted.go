package capture

import (
	"context"

	"nodekeep.dev/nodekeep/store"
)

// keepAccepted has ConfigMap [store.AcceptedName] show the policy in force while this process leads, and the one before. A process that starts while
// the NodePolicy is deleted or bad takes it from there. That a client has removed or replaced it changes no policy: it is written again.
func (c *Controller) keepAccepted(ctx context.Context) {
	manifest := string(c.Object.Accepted())
	if manifest == "" || !c.leading.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	err := c.Contained("keep accepted policy", "", func() error {
		state, err := c.configMaps.Get(ctx, store.AcceptedName)
		if err != nil {
			return err
		}
		var data map[string]string
		if state != nil {
			data = state.Data
		}
		if change := acceptedChange(data, manifest, c.Policy().Gate()); change != nil {
			return c.configMaps.Set(ctx, store.AcceptedName, state != nil, change)
		}
		return nil
	})
	switch {
	case err == nil:
		c.unkept = ""
	case ctx.Err() == nil && c.unkept != err.Error():
		c.unkept = err.Error()
		c.Logger.Warn("policy in force cannot be written; a process that starts while the NodePolicy cannot be used takes an older one", "configmap", store.AcceptedName, "error", err)
	}
}
