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
func newNodeInformer(client kubernetes.Interface, keptAnnotations func() policy.Annotations) (cache.SharedIndexInformer, error) {
	nodes := store.ListWatch(client, client.CoreV1().Nodes(), "", nil)
	informer := cache.NewSharedIndexInformer(nodes, &corev1.Node{}, 0, cache.Indexers{})
	if err := informer.SetTransform(func(object any) (any, error) { return stripNode(object, keptAnnotations()), nil }); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return informer, nil
}

// stripNode drops what is not read. The informer may call it on its own result.
func stripNode(object any, keptAnnotations policy.Annotations) any {
	if node, ok := object.(*corev1.Node); ok {
		return stripNodeWith(observe.CompactNodeOf, node, keptAnnotations)
	}
	return object
}

// stripNodeWith never panics and never fails. A panic would end the process. After an error the informer would list all Nodes again and would
// never be synced.
func stripNodeWith(convert func(*observe.Node) *observe.CompactNode, node *corev1.Node, keptAnnotations policy.Annotations) (stripped *observe.CompactNode) {
	err := contain.Call(func() error { stripped = convert(observe.FromNodeWithAnnotations(node, keptAnnotations)); return nil })
	if panicked, ok := contain.IsPanic(err); ok {
		return observe.Unreadable(node.Name, node.UID, node.ResourceVersion, panicked)
	}
	return stripped
}

// addNodeHandlers adds the watch's events to the observations, in order. It calls changed with the names of Nodes that have something to reconcile. If
// an event of a Node cannot be added, it calls panicked with the Node's name.
func addNodeHandlers(informer cache.SharedIndexInformer, obs *observations, changed func(node string), panicked func(node string, err error)) (cache.ResourceEventHandlerRegistration, error) {
	addOrUpdate := func(object any) {
		if node, ok := object.(*observe.CompactNode); ok && obs.observeLive(node) {
			changed(node.Name())
		}
	}
	registration, err := informer.AddEventHandler(contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc:    addOrUpdate,
		UpdateFunc: func(_, current any) { addOrUpdate(current) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if node, ok := object.(*observe.CompactNode); ok {
				obs.observeDeleted(node)
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
