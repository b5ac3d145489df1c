package rollout

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

type labels = map[string]string

// manifestWith returns a manifest of a NodePolicy that keeps a label.
func manifestWith(key string) string {
	return `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"labels":{"ignore":["` + key + `"]}}}`
}

func TestWhatIsKeptOfThePolicyInForce(t *testing.T) {
	a, b, c := manifestWith("a"), manifestWith("b"), manifestWith("c")
	large := strings.Replace(a, "{", "{"+strings.Repeat(" ", maxAcceptedBytes/2), 1)
	larger := strings.Replace(b, "{", "{"+strings.Repeat(" ", maxAcceptedBytes/2), 1)
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
		"the older one has no room any more":        {labels{store.AcceptedPolicy: a, store.AcceptedBefore: b}, large + strings.Repeat(" ", maxAcceptedBytes/2), labels{store.AcceptedPolicy: large + strings.Repeat(" ", maxAcceptedBytes/2), store.AcceptedBefore: "-"}},
		"no room for the one that a client removed": {labels{store.AcceptedBefore: large}, larger, labels{store.AcceptedPolicy: larger, store.AcceptedBefore: "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got labels
			for key, value := range acceptedUpdate(test.data, test.manifest, policy.DefaultGate) {
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

// keeps returns a rollout of the default policy, which has this manifest.
func keeps(client kubernetes.Interface, manifest *string, leads *bool) *Rollout {
	known := func(policy.Policy) bool { return true }
	return New(Options{
		Notes: store.ConfigMapNotes{Client: client}, Policy: policy.Default, Manifest: func() []byte { return []byte(*manifest) }, Controller: nodes{leads},
		FeaturesKnown: known, RulesJudgeable: known, CountAltered: func(policy.Policy) (changed, renamed, total int) { return 0, 0, 0 }, OnRelease: func() {},
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
}

type nodes struct{ leads *bool }

func (n nodes) Leading() bool                                     { return *n.leads }
func (n nodes) CallRecovering(_, _ string, fn func() error) error { return fn() }

func TestTheLeaderKeepsThePolicyInForceWhateverAClientDoesToIt(t *testing.T) {
	manifest, leads := manifestWith("a"), false
	client := fake.NewClientset()
	r := keeps(client, &manifest, &leads)
	maps := client.CoreV1().ConfigMaps("")
	kept := func() labels {
		t.Helper()
		r.keepAccepted(t.Context())
		found, err := maps.Get(t.Context(), store.AcceptedConfigMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		require.NoError(t, err)
		return found.Data
	}
	assert.Nil(t, kept(), "that is for the leader")
	leads = true
	assert.Equal(t, labels{store.AcceptedPolicy: manifestWith("a")}, kept())
	writes := func() (count int) {
		for _, action := range client.Actions() {
			if action.GetVerb() != "get" && action.GetResource().Resource == "configmaps" {
				count++
			}
		}
		return count
	}
	index := writes()
	kept()
	assert.Equal(t, index, writes(), "nothing has changed")

	require.NoError(t, r.Notes.Set(t.Context(), store.AcceptedConfigMap, true, map[string]*string{store.RulesInForce: new("none")}))
	manifest = manifestWith("b")
	combined := labels{store.AcceptedPolicy: manifestWith("b"), store.AcceptedBefore: manifestWith("a"), store.RulesInForce: "none"}
	assert.Equal(t, combined, kept())
	for name, value := range map[string]*string{"removes": nil, "replaces": new("{}")} {
		require.NoError(t, r.Notes.Set(t.Context(), store.AcceptedConfigMap, true, map[string]*string{store.AcceptedPolicy: value}), name)
		assert.Equal(t, combined, kept(), "a client %s it", name)
	}
	require.NoError(t, maps.Delete(t.Context(), store.AcceptedConfigMap, metav1.DeleteOptions{}))
	assert.Equal(t, labels{store.AcceptedPolicy: manifestWith("b")}, kept())
	manifest = ""
	require.NoError(t, maps.Delete(t.Context(), store.AcceptedConfigMap, metav1.DeleteOptions{}))
	assert.Nil(t, kept(), "a policy that comes from no object is no news")
}

func TestThatThePolicyInForceCannotBeKeptIsSaidOnce(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), store.AcceptedConfigMap, errors.New("no right"))
	})
	var log bytes.Buffer
	r := keeps(client, new(manifestWith("a")), new(true))
	r.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		r.keepAccepted(t.Context())
	}
	assert.Equal(t, 1, strings.Count(log.String(), "policy in force cannot be written"))
}

func TestThePolicyIsKeptAtOnceAfterAChange(t *testing.T) {
	client := fake.NewClientset()
	r := keeps(client, new(manifestWith("a")), new(true))
	r.Trigger()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.Run(ctx)
	require.Eventually(t, func() bool {
		found, err := client.CoreV1().ConfigMaps("").Get(ctx, store.AcceptedConfigMap, metav1.GetOptions{})
		return err == nil && found.Data[store.AcceptedPolicy] != ""
	}, checkInterval/2, checkInterval/1000)
}

func TestRulesAreHeldUntilTheyAreReleased(t *testing.T) {
	var r Rollout
	assert.True(t, r.hashHeld("new"), "at the start nothing is known")
	r.release("old")
	assert.False(t, r.hashHeld("old"))
	assert.True(t, r.hashHeld("new"))
	assert.True(t, r.hold("new", 40), "news")
	assert.False(t, r.hold("new", 41), "no news")
	assert.Equal(t, &HeldRules{"new", 41}, r.held.Load())
	assert.True(t, r.hold("newer", 5), "news again")
	r.release("newer")
	assert.False(t, r.hashHeld("newer"))
	assert.Nil(t, r.held.Load())
	assert.True(t, r.hashHeld("old"), "what was in force before is held like any other")
}
