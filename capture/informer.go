package capture

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// newNodeInformer watches Nodes and holds only what capture reads of them.
func newNodeInformer(client kubernetes.Interface) (cache.SharedIndexInformer, error) {
	informer := coreinformers.NewNodeInformer(client, 0*time.Second, cache.Indexers{})
	if err := informer.SetTransform(slim); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return informer, nil
}

// slim drops what is not read. The informer may call it on its own result.
func slim(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		return slimOf(nodeOf(node)), nil
	}
	return object, nil
}

// feed brings the watch's events into the sightings, in order, and names of Nodes with something to plan to changed.
func feed(informer cache.SharedIndexInformer, to *sightings, changed func(node string)) (cache.ResourceEventHandlerRegistration, error) {
	lives := func(object any) {
		if node, ok := object.(*slimNode); ok && to.lives(node) {
			changed(node.name())
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    lives,
		UpdateFunc: func(_, current any) { lives(current) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if node, ok := object.(*slimNode); ok {
				to.went(node)
				changed(node.name())
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return registration, nil
}
