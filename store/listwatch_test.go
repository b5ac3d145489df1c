package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/store"
)

// nodesOf is an API server whose lists and watches a test answers.
type nodesOf struct {
	list  func(ctx context.Context) (*corev1.NodeList, error)
	watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

func (n nodesOf) List(ctx context.Context, _ metav1.ListOptions) (*corev1.NodeList, error) {
	return n.list(ctx)
}

func (n nodesOf) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return n.watch(ctx, options)
}

func watchOf(t *testing.T, n nodesOf, options metav1.ListOptions, received func()) watch.Interface {
	t.Helper()
	w, err := cache.ToListerWatcherWithContext(store.ListWatch(nil, n, "a=b", received)).WatchWithContext(t.Context(), options)
	require.NoError(t, err)
	return w
}

var streams = metav1.ListOptions{SendInitialEvents: ptr.To(true), TimeoutSeconds: ptr.To(int64(400))}

func TestAWatchAsksForATimeoutThatTheAPIServersBookmarkPrecedes(t *testing.T) {
	for name, c := range map[string]struct {
		options metav1.ListOptions
		want    int64
	}{
		"a watch that resumes":                 {metav1.ListOptions{TimeoutSeconds: ptr.To(int64(400))}, 48},
		"a watch that streams all there is":    {streams, 400},
		"a watch for which nothing was chosen": {metav1.ListOptions{}, 48},
	} {
		t.Run(name, func(t *testing.T) {
			var asked metav1.ListOptions
			w := watchOf(t, nodesOf{watch: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				asked = options
				return watch.NewFake(), nil
			}}, c.options, nil)
			w.Stop()
			assert.Equal(t, c.want, *asked.TimeoutSeconds)
			assert.Equal(t, "a=b", asked.LabelSelector)
		})
	}
}

// stalled is a watch of a request that ends when its context does, as that of a real client: with an error event.
func stalled(ctx context.Context) *watch.RaceFreeFakeWatcher {
	w := watch.NewRaceFreeFake()
	context.AfterFunc(ctx, func() {
		w.Error(&metav1.Status{Message: "unable to decode an event from the watch stream: context canceled"})
	})
	return w
}

func TestAWatchEndsByItselfOnceNothingHasArrivedForLongEnough(t *testing.T) {
	for name, options := range map[string]metav1.ListOptions{"a watch that resumes": {}, "a watch that streams all there is": streams} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started, count := time.Now(), 0
				var from *watch.RaceFreeFakeWatcher
				w := watchOf(t, nodesOf{watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
					from = stalled(ctx)
					return from, nil
				}}, options, func() { count++ })
				go func() {
					for range 60 { // an hour, in which something arrives every minute
						time.Sleep(time.Minute)
						from.Action(watch.Bookmark, &corev1.Node{})
					}
				}()
				for event := range w.ResultChan() {
					assert.Equal(t, watch.Bookmark, event.Type, "no error: a reflector would list everything again")
				}
				assert.Equal(t, 60, count)
				assert.Equal(t, time.Hour+70*time.Second, time.Since(started))
				w.Stop()
			})
		})
	}
}

func TestTheTimeThatAReaderTakesIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := watch.NewFake()
		w := watchOf(t, nodesOf{watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return from, nil }}, streams, nil)
		go func() {
			for range 3 {
				from.Add(&corev1.Node{})
			}
		}()
		for range 3 {
			time.Sleep(10 * time.Minute)
			event, more := <-w.ResultChan()
			require.True(t, more)
			assert.Equal(t, watch.Added, event.Type)
		}
		w.Stop()
		synctest.Wait()
	})
}

func TestAWatchThatTheAPIServerDoesNotEvenAcceptHasEndedAndIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		w := watchOf(t, nodesOf{watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, metav1.ListOptions{}, func() { assert.Fail(t, "nothing was received") })
		_, more := <-w.ResultChan()
		assert.False(t, more)
		assert.Equal(t, 70*time.Second, time.Since(started))
	})
}

func TestAnErrorOfAWatchIsPassedOn(t *testing.T) {
	refused := errors.New("not today")
	_, err := cache.ToListerWatcherWithContext(store.ListWatch(nil, nodesOf{watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		return nil, refused
	}}, "", nil)).WatchWithContext(t.Context(), metav1.ListOptions{})
	assert.ErrorIs(t, err, refused)
}

func TestAListThatIsNeverAnsweredIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		_, err := cache.ToListerWatcherWithContext(store.ListWatch(nil, nodesOf{list: func(ctx context.Context) (*corev1.NodeList, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, "", func() { assert.Fail(t, "nothing was received") })).ListWithContext(t.Context(), metav1.ListOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Minute, time.Since(started))
	})
}
