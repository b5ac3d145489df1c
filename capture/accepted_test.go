package capture

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	eventrecord "k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// manifestWith is a manifest of a NodePolicy that keeps a label.
func manifestWith(key string) string {
	return `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"labels":{"ignore":["` + key + `"]}}}`
}

func TestWhatIsKeptOfThePolicyInForce(t *testing.T) {
	a, b, c := manifestWith("a"), manifestWith("b"), manifestWith("c")
	large := strings.Replace(a, "{", "{"+strings.Repeat(" ", mostAccepted/2), 1)
	larger := strings.Replace(b, "{", "{"+strings.Repeat(" ", mostAccepted/2), 1)
	for name, test := range map[string]struct {
		data     labels
		manifest string
		want     labels // "-": removed; nil: nothing is written
	}{
		"nothing was accepted":                      {nil, a, labels{store.AcceptedPolicy: a}},
		"it is as it was":                           {labels{store.AcceptedPolicy: a, store.AcceptedBefore: b}, a, nil},
		"only rules were accepted":                  {labels{store.RulesInForce: "none"}, a, labels{store.AcceptedPolicy: a}},
		"the second one":                            {labels{store.AcceptedPolicy: a}, b, labels{store.AcceptedPolicy: b, store.AcceptedBefore: a}},
		"the third one":                             {labels{store.AcceptedPolicy: b, store.AcceptedBefore: a}, c, labels{store.AcceptedPolicy: c, store.AcceptedBefore: b}},
		"a client has removed it":                   {labels{store.AcceptedBefore: a}, b, labels{store.AcceptedPolicy: b}},
		"a client has emptied it":                   {labels{store.AcceptedPolicy: "", store.AcceptedBefore: a}, b, labels{store.AcceptedPolicy: b}},
		"a client has written what is no policy":    {labels{store.AcceptedPolicy: "{}", store.AcceptedBefore: a}, b, labels{store.AcceptedPolicy: b}},
		"both are too large for a ConfigMap":        {labels{store.AcceptedPolicy: large}, larger, labels{store.AcceptedPolicy: larger}},
		"the older one has no room any more":        {labels{store.AcceptedPolicy: a, store.AcceptedBefore: b}, large + strings.Repeat(" ", mostAccepted/2), labels{store.AcceptedPolicy: large + strings.Repeat(" ", mostAccepted/2), store.AcceptedBefore: "-"}},
		"no room for the one that a client removed": {labels{store.AcceptedBefore: large}, larger, labels{store.AcceptedPolicy: larger, store.AcceptedBefore: "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got labels
			for key, value := range acceptedChange(test.data, test.manifest, gate) {
				if got == nil {
					got = labels{}
				}
				if got[key] = "-"; value != nil {
					got[key] = *value
				}
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// fixedObject is a NodePolicy as a process knows it.
type fixedObject struct {
	uid      types.UID
	manifest string
	err      error
}

func (f *fixedObject) UID() types.UID   { return f.uid }
func (f *fixedObject) Accepted() []byte { return []byte(f.manifest) }
func (f *fixedObject) Err() error       { return f.err }

func TestTheLeaderKeepsThePolicyInForceWhateverAClientDoesToIt(t *testing.T) {
	object := &fixedObject{manifest: manifestWith("a")}
	client := fake.NewClientset()
	w := newCluster(t, "")
	r := w.replica(func(o *Options) { o.Client, o.Object = client, object })
	maps := client.CoreV1().ConfigMaps("")
	kept := func() labels {
		t.Helper()
		r.keepAccepted(t.Context())
		found, err := maps.Get(t.Context(), store.AcceptedName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		require.NoError(t, err)
		return found.Data
	}
	assert.Nil(t, kept(), "that is for the leader")
	r.Lead()
	assert.Equal(t, labels{store.AcceptedPolicy: manifestWith("a")}, kept())
	writes := func() (count int) {
		for _, action := range client.Actions() {
			if action.GetVerb() != "get" && action.GetResource().Resource == "configmaps" {
				count++
			}
		}
		return count
	}
	before := writes()
	kept()
	assert.Equal(t, before, writes(), "nothing has changed")

	require.NoError(t, r.configMaps.Set(t.Context(), store.AcceptedName, true, map[string]*string{store.RulesInForce: new("none")}))
	object.manifest = manifestWith("b")
	both := labels{store.AcceptedPolicy: manifestWith("b"), store.AcceptedBefore: manifestWith("a"), store.RulesInForce: "none"}
	assert.Equal(t, both, kept())
	for name, value := range map[string]*string{"removes": nil, "replaces": new("{}")} {
		require.NoError(t, r.configMaps.Set(t.Context(), store.AcceptedName, true, map[string]*string{store.AcceptedPolicy: value}), name)
		assert.Equal(t, both, kept(), "a client %s it", name)
	}
	require.NoError(t, maps.Delete(t.Context(), store.AcceptedName, metav1.DeleteOptions{}))
	assert.Equal(t, labels{store.AcceptedPolicy: manifestWith("b")}, kept())
	object.manifest = ""
	require.NoError(t, maps.Delete(t.Context(), store.AcceptedName, metav1.DeleteOptions{}))
	assert.Nil(t, kept(), "a policy that comes from no object is no news")
}

func TestThatThePolicyInForceCannotBeKeptIsSaidOnce(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), store.AcceptedName, errors.New("no right"))
	})
	var log bytes.Buffer
	r := newCluster(t, "").leader(func(o *Options) {
		o.Client, o.Object, o.Logger = client, &fixedObject{manifest: manifestWith("a")}, slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 3 {
		r.keepAccepted(t.Context())
	}
	assert.Equal(t, 1, strings.Count(log.String(), "policy in force cannot be written"))
}

func TestThePolicyIsKeptAtOnceAfterAChange(t *testing.T) {
	client := fake.NewClientset()
	r := newCluster(t, "").leader(func(o *Options) { o.Client, o.Object = client, &fixedObject{manifest: manifestWith("a")} })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.rollOut(ctx)
	require.Eventually(t, func() bool {
		found, err := client.CoreV1().ConfigMaps("").Get(ctx, store.AcceptedName, metav1.GetOptions{})
		return err == nil && found.Data[store.AcceptedPolicy] != ""
	}, rolloutInterval/2, rolloutInterval/1000)
}

// aboutRecorder keeps what Events are about.
type aboutRecorder struct {
	eventrecord.EventRecorder
	about   []runtime.Object
	reasons []string
}

func (r *aboutRecorder) Eventf(about runtime.Object, _, reason, _ string, _ ...any) {
	r.about, r.reasons = append(r.about, about), append(r.reasons, reason)
}

func TestEventsAboutThePolicyAreAboutTheNodePolicy(t *testing.T) {
	events := &aboutRecorder{}
	object := &fixedObject{uid: "u"}
	w := newCluster(t, "")
	r := w.replica(func(o *Options) { o.Events, o.Object = events, object })
	bad := policy.FileErrors{{What: "spec.labels.keep: wrong"}}
	r.ReportPolicy(bad)
	assert.Empty(t, events.reasons, "the leader says it")
	object.err = bad
	r.Lead()
	require.Equal(t, []string{PolicyInvalid}, events.reasons, "also what happened before")
	assert.Equal(t, &corev1.ObjectReference{APIVersion: "nodekeep.dev/v1alpha1", Kind: "NodePolicy", Name: "default", UID: "u"}, events.about[0])
	object.uid = ""
	r.ReportPolicy(bad)
	require.Equal(t, []string{PolicyInvalid, PolicyInvalid}, events.reasons)
	assert.Equal(t, &corev1.ObjectReference{APIVersion: "nodekeep.dev/v1alpha1", Kind: "NodePolicy", Name: "default"}, events.about[1])
}
