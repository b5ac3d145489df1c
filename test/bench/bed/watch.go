package bed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// WatchRecords calls seen with every record that is written from now on, until ctx is done. The channel that it returns
// yields one error when the watch ends.
func (b *Bed) WatchRecords(ctx context.Context, seen func(record.Record)) (<-chan error, error) {
	configMaps := b.Admin.CoreV1().ConfigMaps(harness.Namespace)
	selector := store.RecordLabel + "=true"
	now, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("watch records: %w", err)
	}
	// The API server ends watches whose client is slow; this one then continues from where it was.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return configMaps.Watch(ctx, options)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch records: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			cm, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				ended <- fmt.Errorf("watch records: %v", event.Object)
				return
			}
			record, err := store.Decode([]byte(cm.Data[store.DataKey]), strings.TrimPrefix(cm.Name, "node."))
			if err != nil {
				ended <- fmt.Errorf("watch records: %w", err)
				return
			}
			seen(record)
		}
		ended <- errors.New("watch records: it ended")
	}()
	return ended, nil
}
