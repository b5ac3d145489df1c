package bed

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// The API server ends watches whose client is slow; this one then continues from where it was.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return b.records().Watch(ctx, options)
		},
	})
	require.NoError(b, err)
	ended := make(chan error, 1)
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			cm, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				ended <- fmt.Errorf("watch records: %v", event.Object)
				return
			}
			listed := store.ListedOf(cm)
			if listed.Err != nil {
				ended <- fmt.Errorf("watch records: %w", listed.Err)
				return
			}
			seen(listed.Entry.Record)
		}
		ended <- errors.New("watch records: it ended")
	}()
	return ended
}
