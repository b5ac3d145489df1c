package capture

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/store"
)

// deviceResource returns the resource of ResourceSlices, in which drivers publish the devices of Nodes.
func deviceResource() factResource[classify.UsedDrivers, observe.Devices] {
	return factResource[classify.UsedDrivers, observe.Devices]{
		description: "resourceslices of resource.k8s.io/v1",
		usageOf:     classify.Rules.Drivers,
		listWatch: func(c *Controller, _ classify.UsedDrivers) cache.ListerWatcher {
			return store.ListWatch(c.Client, c.Client.ResourceV1().ResourceSlices(), "", nil)
		},
		object: &resourcev1.ResourceSlice{},
		strip: func(object any, usage classify.UsedDrivers) publication {
			if slice, ok := object.(*resourcev1.ResourceSlice); ok {
				return observe.SliceOf(slice, usage)
			}
			return nil
		},
		unreadable: func(object any) publication { return observe.UnreadableSlice(object.(*resourcev1.ResourceSlice)) },
		facts:      func(objects []any) observe.Devices { return observe.DevicesOf(castAll[*observe.Slice](objects)) },
		report:     (*Controller).reportDevices,
	}
}

// reportDevices reports once why rules about devices decide nothing.
func (c *Controller) reportDevices(err error) {
	log, event := c.devices.shouldReport(err, c.leading.Load())
	if log {
		c.Logger.Warn("rules look at devices, and the resource slices cannot be read; until they can, these rules decide nothing, and new rules only add labels", "error", err)
	}
	if event {
		c.policyWarningEvent(FactsUnknown,
			"Rules look at devices, and the ResourceSlices cannot be read. Until they can, these rules set and remove nothing, and new rules only add labels. The chart grants the right with rules.devices=true; the API resource.k8s.io/v1 is there from Kubernetes 1.34 on. (%v)",
			err)
	}
}
