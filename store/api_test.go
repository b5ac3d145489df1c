package store_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// api is what the plain fake client lacks of an API server and the store relies on: it numbers resourceVersions, refuses
// stale writes and makes watches select by label. Its watches can be held up or broken.
type api struct {
	clienttesting.ObjectTracker

	mu      sync.Mutex
	last    int // resourceVersion
	removed map[string]string
	watches []*apiWatch
	expired bool // the next watch receives that its resourceVersion is too old

	late sync.RWMutex // held while watches are late
}

func newAPI() *api {
	return &api{
		ObjectTracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder()),
		last:          1,
		removed:       map[string]string{},
	}
}

// client returns a client of its own, so that its calls can be counted.
func (a *api) client() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", clienttesting.ObjectReaction(a))
	client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := a.Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		return true, w, err
	})
	return client
}

// Create numbers a new object.
func (a *api) Create(gvr schema.GroupVersionResource, object runtime.Object, ns string, options ...metav1.CreateOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	object = object.DeepCopyObject()
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if m.GetResourceVersion() != "" {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	m.SetResourceVersion(strconv.Itoa(a.last + 1))
	if err := a.ObjectTracker.Create(gvr, object, ns, options...); err != nil {
		return err
	}
	a.last++
	return nil
}

// Update refuses an object that is not of the version that is stored, and numbers the new one.
func (a *api) Update(gvr schema.GroupVersionResource, object runtime.Object, ns string, options ...metav1.UpdateOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	stored, err := a.stored(gvr, ns, m.GetName())
	if err != nil {
		return err
	}
	if version := m.GetResourceVersion(); version != "" && version != stored.GetResourceVersion() {
		return apierrors.NewConflict(gvr.GroupResource(), m.GetName(), nil)
	}
	a.last++
	m.SetResourceVersion(strconv.Itoa(a.last))
	return a.ObjectTracker.Update(gvr, object, ns, options...)
}

// Patch is given the patched object: its version is the stored one unless the patch says otherwise.
func (a *api) Patch(gvr schema.GroupVersionResource, object runtime.Object, ns string, _ ...metav1.PatchOptions) error {
	return a.Update(gvr, object, ns)
}

// Delete numbers the removal, as etcd does, and refuses that of another version than the stored one where the caller asks for it.
func (a *api) Delete(gvr schema.GroupVersionResource, ns, name string, options ...metav1.DeleteOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	stored, err := a.stored(gvr, ns, name)
	if err != nil {
		return err
	}
	for _, option := range options {
		if single := option.Preconditions; single != nil && single.ResourceVersion != nil && *single.ResourceVersion != stored.GetResourceVersion() {
			return apierrors.NewConflict(gvr.GroupResource(), name, nil)
		}
	}
	a.last++
	a.removed[name+"@"+stored.GetResourceVersion()] = strconv.Itoa(a.last)
	return a.ObjectTracker.Delete(gvr, ns, name, options...)
}

func (a *api) stored(gvr schema.GroupVersionResource, ns, name string) (metav1.Object, error) {
	object, err := a.Get(gvr, ns, name)
	if err != nil {
		return nil, err
	}
	return meta.Accessor(object)
}

// configMap returns a ConfigMap as it is stored, or nil.
func (a *api) configMap(t *testing.T, namespace, name string) *corev1.ConfigMap {
	t.Helper()
	object, err := a.Get(configMaps, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return object.(*corev1.ConfigMap)
}
