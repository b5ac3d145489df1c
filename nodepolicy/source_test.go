package nodepolicy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

const namespace = "nodekeep-system"

// bed is a process's Source, and the API server that it asks.
type bed struct {
	*Source
	objects *dynamicfake.FakeDynamicClient
	client  *fake.Clientset
	fails   atomic.Pointer[error] // how the API server answers who asks for NodePolicies
	changes atomic.Int32

	mu      sync.Mutex
	wrongs  []error
	written bytes.Buffer
}

// Write takes the log.
func (b *bed) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written.Write(line)
}

// logged returns the lines of the log since the last call, without their times.
func (b *bed) logged() (lines []string) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.written.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, line)
	}
	b.written.Reset()
	return lines
}

// reported returns how often something was wrong.
func (b *bed) reported() int {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wrongs)
}

// objectOf returns a NodePolicy as the API server has it.
func objectOf(manifest string, uid types.UID, generation int64) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(manifest), &o.Object); err != nil {
		panic(err)
	}
	o.SetUID(uid)
	o.SetGeneration(generation)
	return o
}

func acceptedBefore(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: namespace}, Data: data}
}

func newBed(objects []runtime.Object, configMaps ...runtime.Object) *bed {
	b := &bed{
		objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			Resource(): kind + "List", rbacv1.SchemeGroupVersion.WithResource("roles"): "RoleList", rbacv1.SchemeGroupVersion.WithResource("rolebindings"): "RoleBindingList",
		}, objects...),
		client: fake.NewClientset(configMaps...),
	}
	fail := func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := b.fails.Load(); err != nil {
			return true, nil, *err
		}
		return false, nil, nil
	}
	b.objects.PrependReactor("get", "nodepolicies", fail)
	b.objects.PrependReactor("list", "nodepolicies", fail)
	b.Source = NewSource(Options{
		Objects: b.objects, Client: b.client, Namespace: namespace, Gate: policy.DefaultGate, Logger: slog.New(slog.NewTextHandler(b, nil)),
	})
	return b
}

// runs has the Source run until the test ends.
func (b *bed) runs(t *testing.T) {
	t.Helper()
	go b.Run(t.Context(), func() { b.changes.Add(1) }, func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrongs = append(b.wrongs, err)
	})
	synctest.Wait()
}

func (b *bed) failing(err error) { b.fails.Store(&err) }

func (b *bed) create(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	_, err := b.objects.Resource(Resource()).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	synctest.Wait()
}

func (b *bed) update(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	_, err := b.objects.Resource(Resource()).Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	synctest.Wait()
}

func (b *bed) delete(t *testing.T) {
	t.Helper()
	require.NoError(t, b.objects.Resource(Resource()).Delete(t.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// inForce reports whether the policy in force restores protected labels as that of a manifest does.
func (b *bed) inForce(t *testing.T, manifest string) bool {
	t.Helper()
	return loaded(t, manifest).RestoresInline() == b.Policy().RestoresInline()
}

const cannotBeUsed = `level=ERROR msg="policy cannot be used; the last good one stays in force"`

func TestTheNodePolicyIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed([]runtime.Object{objectOf(inline, "a", 1)})
		assert.False(t, b.Known())
		assert.Nil(t, b.Accepted())
		b.runs(t)
		require.True(t, b.Wait(t.Context()))
		assert.True(t, b.Known())
		assert.True(t, b.inForce(t, inline))
		assert.JSONEq(t, inline, string(b.Accepted()))
		assert.Equal(t, types.UID("a"), b.UID())
		assert.Equal(t, []string{`level=INFO msg="policy in force" generation=1`}, b.logged(), "that it is listed again is no news")
		assert.EqualValues(t, 1, b.changes.Load(), "nothing was in force before")

		b.update(t, objectOf(neverManifest, "a", 2))
		assert.True(t, b.inForce(t, neverManifest))
		assert.EqualValues(t, 2, b.changes.Load())
		assert.Equal(t, []string{`level=INFO msg="policy in force" generation=2`}, b.logged())

		marked := objectOf(neverManifest, "a", 2)
		marked.SetLabels(map[string]string{"a": "b"})
		b.update(t, marked)
		assert.Empty(t, b.logged(), "its metadata says nothing")

		for range 2 { // once for each generation
			b.update(t, objectOf(unknown, "a", 3))
		}
		assert.True(t, b.inForce(t, neverManifest))
		require.ErrorContains(t, b.Err(), "spec.labels.protected")
		assert.JSONEq(t, neverManifest, string(b.Accepted()))
		logged := b.logged()
		require.Len(t, logged, 1)
		assert.Contains(t, logged[0], cannotBeUsed+" generation=3 error=")
		assert.Equal(t, 1, b.reported())
		assert.EqualValues(t, 2, b.changes.Load())

		b.update(t, objectOf(neverManifest, "a", 4))
		require.NoError(t, b.Err())
		assert.EqualValues(t, 2, b.changes.Load(), "it was in force all the time")
		assert.Equal(t, []string{`level=INFO msg="policy in force" generation=4`}, b.logged())

		b.update(t, objectOf(inline, "a", 5))
		assert.True(t, b.inForce(t, inline))
		assert.EqualValues(t, 3, b.changes.Load())
		assert.Equal(t, []string{`level=INFO msg="policy in force" generation=5`}, b.logged())
	})
}

func TestADeletedNodePolicyStaysInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed([]runtime.Object{objectOf(inline, "a", 7)})
		b.runs(t)
		b.logged()
		b.delete(t)
		assert.True(t, b.inForce(t, inline))
		assert.Empty(t, b.UID())
		require.ErrorContains(t, b.Err(), "An empty spec returns to the defaults")
		assert.JSONEq(t, inline, string(b.Accepted()), "for processes that start now")
		assert.Equal(t, 1, b.reported())
		logged := b.logged()
		require.Len(t, logged, 1)
		assert.Contains(t, logged[0], `level=ERROR msg="no NodePolicy can be read; the last good policy stays in force"`)

		b.create(t, objectOf(inline, "b", 1))
		require.NoError(t, b.Err())
		assert.Equal(t, []string{`level=INFO msg="policy in force" generation=1`}, b.logged())
		assert.EqualValues(t, 1, b.changes.Load())
		b.delete(t)
		b.create(t, objectOf(empty, "c", 1))
		assert.True(t, b.inForce(t, empty))
		require.NoError(t, b.Err())
		assert.EqualValues(t, 2, b.changes.Load())
		assert.Equal(t, 2, b.reported())
	})
}

func TestAProcessThatFindsNoNodePolicyItCanUseTakesWhatWasAcceptedLast(t *testing.T) {
	for title, c := range map[string]struct {
		object   []runtime.Object
		err      error
		accepted []runtime.Object
		want     string
		good     bool
		log      string
	}{
		"it is deleted": {
			accepted: []runtime.Object{acceptedBefore(map[string]string{store.AcceptedPolicy: inline, store.AcceptedBefore: neverManifest})},
			want:     inline, log: "no NodePolicy can be read; the last good policy stays in force",
		},
		"it is bad": {
			object:   []runtime.Object{objectOf(unknown, "a", 3)},
			accepted: []runtime.Object{acceptedBefore(map[string]string{store.AcceptedPolicy: inline, store.AcceptedBefore: neverManifest})},
			want:     inline, log: cannotBeUsed + " generation=3",
		},
		"it is bad, and a client has overwritten the copy": {
			object:   []runtime.Object{objectOf(unknown, "a", 3)},
			accepted: []runtime.Object{acceptedBefore(map[string]string{store.AcceptedPolicy: "?", store.AcceptedBefore: inline})},
			want:     inline, log: cannotBeUsed + " generation=3",
		},
		"it is bad, and nothing was accepted": {
			object: []runtime.Object{objectOf(unknown, "a", 3)}, accepted: []runtime.Object{acceptedBefore(map[string]string{store.RulesInForce: "none"})},
			want: empty, log: cannotBeUsed + " generation=3",
		},
		"there is no CustomResourceDefinition": {
			err:      apierrors.NewGenericServerResponse(404, "get", Resource().GroupResource(), name, "", 0, true),
			accepted: []runtime.Object{acceptedBefore(map[string]string{store.AcceptedPolicy: inline})},
			want:     inline, log: "no NodePolicy can be read; the last good policy stays in force",
		},
		"there never was a NodePolicy": {
			want: empty, good: true, log: `level=INFO msg="there is no NodePolicy, and none was accepted before; the defaults are in force"`,
		},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(c.object, c.accepted...)
				if c.err != nil {
					b.failing(c.err)
				}
				b.runs(t)
				require.True(t, b.Known())
				assert.True(t, b.inForce(t, c.want))
				assert.Nil(t, b.Accepted(), "it does not come from the object")
				assert.Equal(t, c.good, b.Err() == nil, b.Err())
				time.Sleep(10 * time.Minute)
				logged := b.logged()
				require.Len(t, logged, 1, "it says so once")
				assert.Contains(t, logged[0], c.log)
			})
		})
	}
}

func TestANodePolicyIsFollowedOnceItsResourceExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(nil)
		b.failing(apierrors.NewGenericServerResponse(404, "get", Resource().GroupResource(), name, "", 0, true))
		b.runs(t)
		require.True(t, b.Known())
		time.Sleep(time.Hour)
		b.create(t, objectOf(inline, "a", 1))
		b.fails.Store(nil)
		time.Sleep(missingEvery)
		synctest.Wait()
		assert.True(t, b.inForce(t, inline))
		assert.EqualValues(t, 2, b.changes.Load())
		assert.Len(t, b.logged(), 2)
	})
}

func TestNothingIsInForceWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	for title, stop := range map[string]bool{"until it does": false, "until the process stops": true} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed([]runtime.Object{objectOf(inline, "a", 1)}, acceptedBefore(map[string]string{store.AcceptedPolicy: neverManifest}))
				b.failing(errors.New("connection refused"))
				b.runs(t)
				time.Sleep(time.Hour)
				assert.False(t, b.Known())
				logged := b.logged()
				require.Len(t, logged, 1, "it says so once")
				assert.Contains(t, logged[0], `msg="policy cannot be read yet; until it is, this process does nothing"`)
				if stop {
					return
				}
				b.fails.Store(nil)
				require.True(t, b.Wait(t.Context()))
				assert.True(t, b.inForce(t, inline))
			})
		})
	}
}

func TestTheDefaultsAreNotTakenWhileItIsNotKnownWhatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(nil, acceptedBefore(map[string]string{store.AcceptedPolicy: inline}))
		var failing atomic.Bool
		failing.Store(true)
		b.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return failing.Load(), nil, apierrors.NewForbidden(corev1.Resource("configmaps"), store.AcceptedConfigMap, errors.New("no right"))
		})
		b.runs(t)
		time.Sleep(time.Minute)
		assert.False(t, b.Known())
		failing.Store(false)
		require.True(t, b.Wait(t.Context()))
		assert.True(t, b.inForce(t, inline))
	})
}

func TestAPolicyThatCannotBePreparedIsNotInForce(t *testing.T) {
	for title, prepare := range map[string]func() error{"an error": func() error { return errors.New("no room") }, "a panic": func() error { panic("no room") }} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed([]runtime.Object{objectOf(inline, "a", 1)})
				b.Prepare = func(p policy.Policy) error {
					if p.RestoresInline() {
						return nil
					}
					return prepare()
				}
				b.runs(t)
				b.update(t, objectOf(neverManifest, "a", 2))
				assert.True(t, b.inForce(t, inline))
				require.ErrorContains(t, b.Err(), "no room")
				b.update(t, objectOf(inline, "a", 3))
				require.NoError(t, b.Err(), "it goes on")
			})
		})
	}
}

func TestAPanicOverAPolicyThatIsInForceEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed([]runtime.Object{objectOf(inline, "a", 1)})
		go b.Run(t.Context(), func() { panic("changed") }, func(error) { panic("wrong") })
		synctest.Wait()
		b.update(t, objectOf(neverManifest, "a", 2))
		b.update(t, objectOf(unknown, "a", 3))
		b.delete(t)
		b.create(t, objectOf(inline, "b", 1))
		assert.True(t, b.inForce(t, inline))
		assert.Contains(t, strings.Join(b.logged(), "\n"), "work on one object panicked")
	})
}

func TestWhoWaitsForAPolicyIsWokenByTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(nil)
		b.failing(errors.New("down"))
		b.runs(t)
		ends, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.False(t, b.Wait(ends))
	})
}
