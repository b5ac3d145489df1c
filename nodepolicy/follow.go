package nodepolicy

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/store"
)

// missingEvery is how often to look for the resource while it is missing, or this process may not read it.
const missingEvery = 5 * time.Second

// watchPolicy watches the NodePolicy until ctx is done.
func (s *Source) watchPolicy(ctx context.Context) {
	s.watchDeclaration(ctx, &singleton{
		ResourceInterface: s.Objects.Resource(Resource()), name: name, kind: kind, saw: s.saw,
		missed: func(err error) {
			if err == nil {
				err = errDeleted()
			}
			s.missed(err)
		},
	})
}

// watchDeclaration watches one object until ctx is done.
func (s *Source) watchDeclaration(ctx context.Context, declaration *singleton) {
	listed := cache.ToListerWatcherWithContext(store.ListWatch(declaration, declaration, "", nil))
	// A reflector would log each list of a missing resource, and try ever more rarely.
	patient := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			for {
				list, err := listed.ListWithContext(ctx, options)
				if err == nil || !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
					return list, err
				}
				s.contained(func() { declaration.missed(err) })
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(missingEvery):
				}
			}
		},
		WatchFuncWithContext: listed.WatchWithContext,
	}
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(patient, declaration), &unstructured.Unstructured{}, storeFunc{s, declaration}, cache.ReflectorOptions{
		Name: "nodepolicy", TypeDescription: declaration.kind,
	}).RunWithContext(ctx)
}

// contained does the work on one object. A panic does not end the process.
func (s *Source) contained(fn func()) {
	if err := contain.Call(func() error { fn(); return nil }); err != nil {
		s.Logger.Error("work on one object panicked; please report this with the stack", "work", "follow policy", "error", err)
	}
}

// singleton is a client that sees the object of one name only, for which it may have the right. It is listed, not streamed: one object needs no
// stream. No list is older than what was read before, as one from the API server's memory may be.
type singleton struct {
	dynamic.ResourceInterface
	name, kind string
	saw        func(*unstructured.Unstructured) // called with the object as it is now
	missed     func(err error)                  // called with why it cannot be read; nil: there is none
}

func (o *singleton) fieldSelector() string { return "metadata.name=" + o.name }

func (o *singleton) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	options.FieldSelector, options.ResourceVersion, options.ResourceVersionMatch = o.fieldSelector(), "", ""
	return o.ResourceInterface.List(ctx, options)
}

func (o *singleton) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = o.fieldSelector()
	return o.ResourceInterface.Watch(ctx, options)
}

// IsWatchListSemanticsUnSupported returns how client-go asks whether to list.
func (o *singleton) IsWatchListSemanticsUnSupported() bool { return true }

// storeFunc takes what a reflector sees.
type storeFunc struct {
	*Source
	policy *singleton
}

var _ cache.ReflectorStore = storeFunc{}

// Add takes the object.
func (f storeFunc) Add(seen any) error {
	if current, ok := seen.(*unstructured.Unstructured); ok && current.GetName() == f.policy.name {
		f.contained(func() { f.policy.saw(current) })
	}
	return nil
}

// Update takes the object.
func (f storeFunc) Update(seen any) error { return f.Add(seen) }

// Delete notes that the object is deleted.
func (f storeFunc) Delete(seen any) error {
	if current, ok := seen.(*unstructured.Unstructured); ok && current.GetName() == f.policy.name {
		f.contained(func() { f.policy.missed(nil) })
	}
	return nil
}

// Replace takes the object from a list, or notes that there is none.
func (f storeFunc) Replace(all []any, _ string) error {
	for _, seen := range all {
		if current, ok := seen.(*unstructured.Unstructured); ok && current.GetName() == f.policy.name {
			return f.Add(current)
		}
	}
	f.contained(func() { f.policy.missed(nil) })
	return nil
}

// Resync does nothing.
func (f storeFunc) Resync() error { return nil }

// errDeleted returns what the API server says of an object that does not exist.
func errDeleted() error { return apierrors.NewNotFound(Resource().GroupResource(), name) }
