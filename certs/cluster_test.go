package certs

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

var (
	secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
	mutatings   = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	validatings = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")

	allowedPaths = regexp.MustCompile(`^/metadata/resourceVersion$|^/webhooks/\d+/clientConfig/caBundle$`)
)

// cluster is an API server reduced to one tracker: unlike the plain fake client it counts resource versions and refuses stale writes,
// and each client can be disturbed on its own.
type cluster struct {
	t       testing.TB
	tracker clienttesting.ObjectTracker

	mu     sync.Mutex
	last   int // resource version
	writes int
}

func newCluster(t testing.TB, objects ...runtime.Object) *cluster {
	c := &cluster{t: t, tracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())}
	for _, o := range objects {
		c.add(o)
	}
	return c
}

// installed returns what the manifests leave behind: an empty Secret and both configurations without a bundle.
func installed(t testing.TB) *cluster {
	return newCluster(t, emptySecret(), mutatingConfiguration(), validatingConfiguration())
}

// started returns an installation at birth, its clock, and a replica that has filled it. before sees each request of the replica first.
func started(t testing.TB, prev func(clienttesting.Action) error) (*cluster, *testingclock.FakeClock, *SelfSigned) {
	t.Helper()
	c, clock := installed(t), testingclock.NewFakeClock(birth)
	s := c.replica(clock, prev)
	require.NoError(t, s.sync(t.Context()))
	return c, clock, s
}

// failing answers requests with one of these verbs with an error, while *down.
func failing(failing *bool, err error, verbs ...string) func(clienttesting.Action) error {
	return func(a clienttesting.Action) error {
		if *failing && slices.Contains(verbs, a.GetVerb()) {
			return err
		}
		return nil
	}
}

// requireAllVerify fails unless what each replica serves is accepted with every bundle there is.
func (c *cluster) requireAllVerify(now time.Time, replicas ...*SelfSigned) {
	for _, s := range replicas {
		for _, bundle := range c.bundles() {
			requireVerifies(c.t, s, bundle, now)
		}
	}
}

// client returns a client of its own for one replica. before, when not nil, sees each request first and may refuse it.
func (c *cluster) client(prev func(clienttesting.Action) error) *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if prev != nil {
			if err := prev(a); err != nil {
				return true, nil, err
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		o, err := c.react(a)
		return true, o, err
	})
	return client
}

func (c *cluster) react(a clienttesting.Action) (runtime.Object, error) {
	switch a := a.(type) {
	case clienttesting.UpdateActionImpl:
		o := a.Object.DeepCopyObject()
		m, err := meta.Accessor(o)
		if err != nil {
			return nil, err
		}
		version, err := c.next(a, m.GetName(), m.GetResourceVersion())
		if err != nil {
			return nil, err
		}
		m.SetResourceVersion(version)
		a.Object = o
		return c.apply(a)
	case clienttesting.PatchActionImpl:
		var patch []jsonpatch.Operation
		if err := json.Unmarshal(a.Patch, &patch); err != nil {
			return nil, err
		}
		for i, op := range patch {
			if !allowedPaths.MatchString(op.Path) {
				c.t.Errorf("a patch touches %s", op.Path)
			}
			if op.Path == "/metadata/resourceVersion" {
				version, err := c.next(a, a.Name, op.Value.(string))
				if err != nil {
					return nil, err
				}
				patch[i].Value = version
			}
		}
		a.Patch, _ = json.Marshal(patch)
		return c.apply(a)
	case clienttesting.GetActionImpl:
		return c.apply(a)
	}
	c.t.Errorf("unexpected request: %s %s", a.GetVerb(), a.GetResource().Resource)
	return nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
}

func (c *cluster) apply(a clienttesting.Action) (runtime.Object, error) {
	_, o, err := clienttesting.ObjectReaction(c.tracker)(a)
	return o, err
}

// next returns the resource version after a write to what is still at version seen.
func (c *cluster) next(a clienttesting.Action, name, seen string) (string, error) {
	o, err := c.tracker.Get(a.GetResource(), a.GetNamespace(), name)
	if err != nil {
		return "", err
	}
	if m, _ := meta.Accessor(o); m.GetResourceVersion() != seen {
		return "", apierrors.NewConflict(a.GetResource().GroupResource(), name, nil)
	}
	c.last++
	c.writes++
	return strconv.Itoa(c.last), nil
}

// add puts an object there as another client would, or replaces it.
func (c *cluster) add(o runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o = o.DeepCopyObject()
	m, err := meta.Accessor(o)
	require.NoError(c.t, err)
	c.last++
	m.SetResourceVersion(strconv.Itoa(c.last))
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	require.NoError(c.t, err)
	gvr, _ := meta.UnsafeGuessKindToResource(kinds[0])
	if _, err := c.tracker.Get(gvr, m.GetNamespace(), m.GetName()); err == nil {
		require.NoError(c.t, c.tracker.Update(gvr, o, m.GetNamespace()))
		return
	}
	require.NoError(c.t, c.tracker.Create(gvr, o, m.GetNamespace()))
}

func (c *cluster) secret() *corev1.Secret {
	o, err := c.tracker.Get(secrets, "nodekeep-system", "nodekeep-webhook-tls")
	require.NoError(c.t, err)
	return o.(*corev1.Secret)
}

func (c *cluster) state() state {
	st, err := decode(c.secret().Data)
	require.NoError(c.t, err)
	return st
}

// setData replaces the data of the Secret as an operator would.
func (c *cluster) setData(data map[string][]byte) {
	s := c.secret()
	s.Data = data
	c.add(s)
}

// bundles returns the caBundle of every webhook entry there is.
func (c *cluster) bundles() (bundles [][]byte) {
	all, err := c.replica(clock.RealClock{}, nil).configurations(c.t.Context())
	require.NoError(c.t, err)
	for _, item := range all {
		bundles = append(bundles, item.bundles...)
	}
	return bundles
}

// replica returns a SelfSigned on this cluster that a test moves with sync.
func (c *cluster) replica(clock clock.Clock, prev func(clienttesting.Action) error) *SelfSigned {
	return NewSelfSigned(c.client(prev), Options{Clock: clock, Logger: slog.New(slog.DiscardHandler), ExtraNames: []string{"127.0.0.1", "localhost"}})
}
