package capture

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// newNodeInformer watches Nodes and holds only what capture reads of them.
func newNodeInformer(client kubernetes.Interface, keep func() policy.Annotations) (cache.SharedIndexInformer, error) {
	nodes := store.ListWatch(client, client.CoreV1().Nodes(), "", nil)
	informer := cache.NewSharedIndexInformer(nodes, &corev1.Node{}, 0, cache.Indexers{})
	if err := informer.SetTransform(func(object any) (any, error) { return slim(object, keep()), nil }); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return informer, nil
}

// slim drops what is not read. The informer may call it on its own result.
func slim(object any, keep policy.Annotations) any {
	if node, ok := object.(*corev1.Node); ok {
		return slimWith(observe.SlimOf, node, keep)
	}
	return object
}

// slimWith never panics and never fails. A panic would end the process. After an error the informer would list all Nodes again and would
// never be synced.
func slimWith(small func(*observe.Node) *observe.Slim, node *corev1.Node, keep policy.Annotations) (slimmed *observe.Slim) {
	err := contain.Call(func() error { slimmed = small(observe.OfKeeping(node, keep)); return nil })
	if panicked, ok := contain.IsPanic(err); ok {
		return observe.Unreadable(node.Name, node.UID, node.ResourceVersion, panicked)
	}
	return slimmed
}

// feed adds the watch's events to the observations, in order. It calls changed with the names of Nodes that have something to reconcile. If
// an event of a Node cannot be added, it calls panicked with the Node's name.
func feed(informer cache.SharedIndexInformer, dest *observations, changed func(node string), panicked func(node string, err error)) (cache.ResourceEventHandlerRegistration, error) {
	lives := func(object any) {
		if node, ok := object.(*observe.Slim); ok && dest.observeLive(node) {
			changed(node.Name())
		}
	}
	registration, err := informer.AddEventHandler(contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc:    lives,
		UpdateFunc: func(_, current any) { lives(current) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if node, ok := object.(*observe.Slim); ok {
				dest.observeDeleted(node)
				changed(node.Name())
			}
		},
	}, func(object any, err error) {
		key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		panicked(key, err)
	}))
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return registration, nil
}
