package capture

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/store"
)

// deviceKind returns ResourceSlices, in which drivers publish the devices of Nodes.
func deviceKind() kind[classify.Drivers, observe.Devices] {
	return kind[classify.Drivers, observe.Devices]{
		resource: "resourceslices of resource.k8s.io/v1",
		uses:     classify.Rules.Drivers,
		watch: func(c *Controller, _ classify.Drivers) cache.ListerWatcher {
			return store.ListWatch(c.Client, c.Client.ResourceV1().ResourceSlices(), "", nil)
		},
		object: &resourcev1.ResourceSlice{},
		slim: func(object any, uses classify.Drivers) publication {
			if slice, ok := object.(*resourcev1.ResourceSlice); ok {
				return observe.SliceOf(slice, uses)
			}
			return nil
		},
		unreadable: func(object any) publication { return observe.UnreadableSlice(object.(*resourcev1.ResourceSlice)) },
		facts:      func(of []any) observe.Devices { return observe.DevicesOf(typed[*observe.Slice](of)) },
		report:     (*Controller).reportDevices,
	}
}

// typed returns objects of an informer.
func typed[T any](objects []any) []T {
	all := make([]T, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.(T))
	}
	return all
}
