package contain

import "k8s.io/client-go/tools/cache"

// Handlers returns handlers of an informer whose panics do not end the process. After a panic, report receives the object of the event and the
// [*Panic].
func Handlers(handlers cache.ResourceEventHandlerFuncs, report func(object any, err error)) cache.ResourceEventHandlerFuncs {
	contained := func(object any, fn func()) {
		if err := Call(func() error { fn(); return nil }); err != nil {
			report(object, err)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { contained(object, func() { handlers.OnAdd(object, false) }) },
		UpdateFunc: func(oldObject, newObject any) {
			contained(newObject, func() { handlers.OnUpdate(oldObject, newObject) })
		},
		DeleteFunc: func(object any) { contained(object, func() { handlers.OnDelete(object) }) },
	}
}
