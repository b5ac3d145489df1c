package contain

import "k8s.io/client-go/tools/cache"

// Handlers are handlers of an informer in which no event ends the process. report is called with the object of an event that
// panicked, and the [*Panic].
func Handlers(handlers cache.ResourceEventHandlerFuncs, report func(object any, err error)) cache.ResourceEventHandlerFuncs {
	contained := func(object any, do func()) {
		if err := Call(func() error { do(); return nil }); err != nil {
			report(object, err)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { contained(object, func() { handlers.OnAdd(object, false) }) },
		UpdateFunc: func(before, after any) { contained(after, func() { handlers.OnUpdate(before, after) }) },
		DeleteFunc: func(object any) { contained(object, func() { handlers.OnDelete(object) }) },
	}
}
