package bed

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// WatchRecords calls seen with every record that is written from now on, until ctx is done. The channel that it returns
// yields one error when the watch ends.
func (b *Bed) WatchRecords(ctx context.Context, seen func(record.Record)) <-chan error {
	selector := store.RecordLabel + "=true"
	now, err := b.records().List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1})
	require.NoError(b, err)
	start := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = selector
		return b.records().Watch(ctx, options)
	}
	return follow(ctx, b, "records", now.ResourceVersion, start, func(cm *corev1.ConfigMap) error {
		listed := store.ListedOf(cm)
		if listed.Err == nil {
			seen(listed.Entry.Record)
		}
		return listed.Err
	})
}

// WatchNodes is WatchRecords for Nodes.
func (b *Bed) WatchNodes(ctx context.Context, seen func(*corev1.Node)) <-chan error {
	now, err := b.Admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	require.NoError(b, err)
	return follow(ctx, b, "nodes", now.ResourceVersion, b.Admin.CoreV1().Nodes().Watch, func(node *corev1.Node) error {
		seen(node)
		return nil
	})
}

// follow calls seen with every object that a watch brings after a version, until that returns an error.
func follow[Object runtime.Object](ctx context.Context, b *Bed, kind, version string, start cache.WatchFuncWithContext, seen func(Object) error) <-chan error {
	// The API server ends watches whose client is slow; this one then continues from where it was.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: start})
	require.NoError(b, err)
	ended := make(chan error, 1)
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(Object)
			if !ok {
				ended <- fmt.Errorf("watch %s: %v", kind, event.Object)
				return
			}
			if err := seen(object); err != nil {
				ended <- fmt.Errorf("watch %s: %w", kind, err)
				return
			}
		}
		ended <- fmt.Errorf("watch %s: it ended", kind)
	}()
	return ended
}
