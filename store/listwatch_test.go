package store_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
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

func watchOf(t *testing.T, n nodesOf, options metav1.ListOptions, link *store.Link) watch.Interface {
	t.Helper()
	w, err := cache.ToListerWatcherWithContext(store.ListWatch(nil, n, "a=b", link)).WatchWithContext(t.Context(), options)
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

// stalled returns a watch of a request that ends when its context does, as that of a real client: with an error event.
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
				}}, options, nil)
				go func() {
					for range 60 { // an hour, in which something arrives every minute
						time.Sleep(time.Minute)
						from.Action(watch.Bookmark, &corev1.Node{})
					}
				}()
				for event := range w.ResultChan() {
					count++
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
			event, ok := <-w.ResultChan()
			require.True(t, ok)
			assert.Equal(t, watch.Added, event.Type)
		}
		w.Stop()
		synctest.Wait()
	})
}

func TestAWatchThatTheAPIServerDoesNotEvenAcceptHasEndedAndIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link store.Link
		started := time.Now()
		w := watchOf(t, nodesOf{watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, metav1.ListOptions{}, &link)
		_, ok := <-w.ResultChan()
		assert.False(t, ok)
		assert.Zero(t, link.Progress())
		assert.Equal(t, 70*time.Second, time.Since(started))
	})
}

func TestAWatchThatResumesAsksAnAPIServerThatRefusesConnectionsEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, started := 0, time.Now()
		w := watchOf(t, nodesOf{watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			if asked++; time.Since(started) < 30*time.Second {
				return nil, fmt.Errorf("watch nodes: %w", syscall.ECONNREFUSED)
			}
			return watch.NewFake(), nil
		}}, metav1.ListOptions{}, nil)
		defer w.Stop()
		assert.Less(t, time.Since(started), 31*time.Second)
		assert.Less(t, asked, 2*30+2)
		assert.Greater(t, asked, 29)
	})
}

func TestThereIsProgressOnlyWhileAWatchIsOpenThatHasBroughtWhatThereWasBefore(t *testing.T) {
	end := func(annotation string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: annotation}}}
	}
	for name, c := range map[string]struct {
		options metav1.ListOptions
		events  []watch.Event
		want    bool
	}{
		"a watch that resumes and brings something":            {metav1.ListOptions{}, []watch.Event{{Type: watch.Modified, Object: &corev1.Node{}}}, true},
		"a watch that streams, in the middle":                  {streams, []watch.Event{{Type: watch.Added, Object: &corev1.Node{}}}, false},
		"a watch that streams, at another bookmark":            {streams, []watch.Event{{Type: watch.Bookmark, Object: end("")}}, false},
		"a watch that streams, where an object only says so":   {streams, []watch.Event{{Type: watch.Added, Object: end("true")}}, false},
		"a watch that has streamed everything, and goes on":    {streams, []watch.Event{{Type: watch.Added, Object: &corev1.Node{}}, {Type: watch.Bookmark, Object: end("true")}}, true},
		"a watch that resumes and brings nothing but an error": {metav1.ListOptions{}, []watch.Event{{Type: watch.Error, Object: &metav1.Status{}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var link store.Link
				from := watch.NewFake()
				w := watchOf(t, nodesOf{watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return from, nil }}, c.options, &link)
				for _, event := range c.events {
					from.Action(event.Type, event.Object)
					<-w.ResultChan()
				}
				synctest.Wait()
				assert.Equal(t, c.want, !link.Progress().IsZero())
				from.Stop()
				synctest.Wait()
				assert.Zero(t, link.Progress(), "a watch that has ended brings nothing any more")
			})
		})
	}
}

func TestTheEndOfAWatchIsNotTakenForTheEndOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link store.Link
		first, second := watch.NewFake(), watch.NewFake()
		next := first
		lw := cache.ToListerWatcherWithContext(store.ListWatch(nil, nodesOf{watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return next, nil }}, "", &link))
		item, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		next = second
		two, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		second.Modify(&corev1.Node{})
		<-two.ResultChan()
		item.Stop()
		synctest.Wait()
		assert.NotZero(t, link.Progress())
		two.Stop()
		synctest.Wait()
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
		var link store.Link
		started := time.Now()
		_, err := cache.ToListerWatcherWithContext(store.ListWatch(nil, nodesOf{list: func(ctx context.Context) (*corev1.NodeList, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, "", &link)).ListWithContext(t.Context(), metav1.ListOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Minute, time.Since(started))
		assert.Zero(t, link.Progress())
	})
}
