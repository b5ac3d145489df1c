package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/storetest"
)

func TestConfigMapsKeepTheContract(t *testing.T) {
	storetest.Contract(t, func(t *testing.T) storetest.Store { return newCluster(t).Cluster })
}

func TestAConfigMapIsAsTheDesignSays(t *testing.T) {
	c := newCluster(t)
	c.put("worker-1", "ci", "")
	cm := c.api.configMap(t, namespace, "node.worker-1")
	require.NotNil(t, cm)
	assert.Equal(t, map[string]string{"app.kubernetes.io/managed-by": "nodekeep", "nodekeep.dev/record": "true"}, cm.Labels)
	assert.Equal(t, map[string]string{"record.json": "{\n  \"version\": 1,\n  \"node\": \"worker-1\",\n  \"labels\": {\n    \"dedicated\": \"ci\"\n  }\n}"}, cm.Data)
}

func TestPutLeavesAloneWhatIsNextToTheRecord(t *testing.T) {
	c := newCluster(t)
	entry := c.put("worker-1", "ci", "")
	c.edit("worker-1", func(cm *corev1.ConfigMap) {
		cm.Labels["team"], cm.Annotations = "ops", map[string]string{"note": "mine"}
		cm.Labels["app.kubernetes.io/managed-by"] = "client"
		cm.Data["theirs.json"], cm.BinaryData = "{}", map[string][]byte{"more": {1}}
	})
	_, err := c.Put(t.Context(), entry.Record, entry.Version)
	require.ErrorIs(t, err, store.ErrConflict)
	entry, err = c.GetFromAPI(t.Context(), "worker-1")
	require.NoError(t, err)
	c.put("worker-1", "gpu", entry.Version)

	cm := c.api.configMap(t, namespace, "node.worker-1")
	assert.Equal(t, map[string]string{"app.kubernetes.io/managed-by": "nodekeep", "nodekeep.dev/record": "true", "team": "ops"}, cm.Labels)
	assert.Equal(t, map[string]string{"note": "mine"}, cm.Annotations)
	assert.Equal(t, "{}", cm.Data["theirs.json"])
	assert.Equal(t, map[string][]byte{"more": {1}}, cm.BinaryData)
	assert.Contains(t, cm.Data[store.DataKey], "gpu")
}

func TestGetMakesNoAPICall(t *testing.T) {
	c := newCluster(t, configMapOf("node.worker-1", "worker-1"), configMapOf("node.worker-2", "worker-1"))
	c.put("worker-3", "ci", "")
	require.Eventually(t, func() bool { return c.Totals().Readable == 2 }, patience, time.Millisecond, "the watch has brought it")
	calls := len(c.client.Actions())
	for range 100 {
		_, err := c.Get("worker-1")
		require.NoError(t, err)
		_, err = c.Get("worker-2")
		require.ErrorIs(t, err, store.ErrUnreadable)
		_, err = c.Get("worker-3")
		require.NoError(t, err)
		_, err = c.Get("worker-4")
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	assert.Equal(t, []int{2, 1}, []int{c.Totals().Readable, c.Totals().Unreadable})
	assert.ElementsMatch(t, []string{"worker-1", "worker-2", "worker-3"}, c.NodeNames())
	assert.Len(t, c.client.Actions(), calls)
}

func TestAForeignConfigMapIsNotOurs(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "node.worker-1", Namespace: namespace}, Data: map[string]string{"a": "b"}}
	c := newCluster(t, foreign)
	_, err := c.Get("worker-1")
	require.ErrorIs(t, err, store.ErrNotFound, "it lacks the label that the informer selects on")
	entry, err := c.GetFromAPI(t.Context(), "worker-1")
	require.ErrorIs(t, err, store.ErrUnreadable)
	assert.True(t, entry.Unlisted)
	_, err = c.Put(t.Context(), record.Record{Node: "worker-1"}, "")
	require.ErrorIs(t, err, store.ErrConflict)
	assert.Equal(t, foreign.Data, c.api.configMap(t, namespace, "node.worker-1").Data)
	assert.Empty(t, c.api.configMap(t, namespace, "node.worker-1").Labels)
}

func TestARecordThatLostItsLabelIsListedAgain(t *testing.T) {
	c := newCluster(t)
	c.put("worker-1", "ci", "")
	c.shows("worker-1", "ci")
	c.edit("worker-1", func(cm *corev1.ConfigMap) { delete(cm.Labels, store.RecordLabel) })
	c.answers("worker-1", store.ErrNotFound)
	_, err := c.Put(t.Context(), record.Record{Node: "worker-1"}, "")
	require.ErrorIs(t, err, store.ErrConflict)
	entry, err := c.GetFromAPI(t.Context(), "worker-1")
	require.NoError(t, err)
	require.True(t, entry.Unlisted)
	assert.Equal(t, map[string]string{"dedicated": "ci"}, entry.Record.Items())
	_, err = c.Put(t.Context(), entry.Record, entry.Version)
	require.NoError(t, err)
	c.shows("worker-1", "ci")
	entry, err = c.GetFromAPI(t.Context(), "worker-1")
	require.NoError(t, err)
	assert.False(t, entry.Unlisted)
}

func TestAnotherNamespaceIsNotOurs(t *testing.T) {
	o := configMapOf("node.worker-1", "worker-1")
	o.Namespace = "default"
	c := newCluster(t, o)
	_, err := c.Get("worker-1")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = c.GetFromAPI(t.Context(), "worker-1")
	require.ErrorIs(t, err, store.ErrNotFound)
	c.put("worker-1", "gpu", "")
	assert.Equal(t, o.Data, c.api.configMap(t, "default", "node.worker-1").Data)
}

func TestCount(t *testing.T) {
	c := newCluster(t, configMapOf("node.worker-1", "worker-1"), configMapOf("node.worker-2", "worker-1"), configMapOf("something-else", "worker-3"))
	c.Tamper("worker-4", []byte("{"))
	long := strings.Repeat("a", 253)
	c.Tamper(long, []byte(`{"version": 1, "node": "`+long+`"}`))
	counts := func(t assert.TestingT, readable, unreadable int) {
		assert.Equal(t, []int{readable, unreadable}, []int{c.Totals().Readable, c.Totals().Unreadable})
	}
	eventually := func(readable, unreadable int) {
		t.Helper()
		require.EventuallyWithT(t, func(t *assert.CollectT) { counts(t, readable, unreadable) }, patience, 5*time.Millisecond)
	}
	eventually(2, 3)
	c.Remove("worker-4")
	eventually(2, 2)
	c.Tamper("worker-2", []byte(`{"version": 1, "node": "worker-2"}`))
	eventually(3, 1)
	c.Tamper("worker-1", nil)
	eventually(2, 2)
}

func TestAStoreThatIsNotStartedKnowsNothing(t *testing.T) {
	records, err := store.NewConfigMaps(newAPI().client(), namespace, nil)
	require.NoError(t, err)
	assert.False(t, records.Synced())
	assert.Zero(t, records.Progress())
	_, err = records.Get("worker-1")
	assert.ErrorIs(t, err, store.ErrNotFound)
}

func TestARefusalShowsWhetherTheObjectHasChanged(t *testing.T) {
	invalid := func(errs ...*field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n1", errs)
	}
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, c := range map[string]struct {
		err     error
		changed bool
	}{
		"a newer state":               {apierrors.NewConflict(nodes, "n1", errors.New("newer")), true},
		"another object of its name":  {invalid(field.Invalid(field.NewPath("metadata", "uid"), "b", "field is immutable")), true},
		"it, and another error":       {invalid(field.Required(field.NewPath("spec"), ""), field.Invalid(field.NewPath("metadata", "uid"), "b", "field is immutable")), true},
		"it, with a text before it":   {fmt.Errorf("patch node: %w", invalid(field.Invalid(field.NewPath("metadata", "uid"), "b", "field is immutable"))), true},
		"a change that is invalid":    {invalid(field.Invalid(field.NewPath("spec", "taints"), "b", "duplicate")), false},
		"an invalid one with no more": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}, false},
		"no object":                   {apierrors.NewNotFound(nodes, "n1"), false},
		"no rights":                   {apierrors.NewForbidden(nodes, "n1", errors.New("not yours")), false},
		"no answer":                   {errors.New("down"), false},
		"no refusal":                  {nil, false},
	} {
		assert.Equal(t, c.changed, store.IsConflict(c.err), name)
	}
}

func TestWhatTheAPIServerRefusesIsHandedOn(t *testing.T) {
	c := newCluster(t)
	entry := c.put("worker-1", "ci", "")
	for _, verb := range []string{"get", "create", "patch", "delete"} {
		c.client.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(configMaps.GroupResource(), "node.worker-1", errors.New("not yours"))
		})
	}
	_, err := c.GetFromAPI(t.Context(), "worker-1")
	_, errCreate := c.Put(t.Context(), record.Record{Node: "worker-1"}, "")
	_, errReplace := c.Put(t.Context(), record.Record{Node: "worker-1"}, entry.Version)
	errDelete := c.Delete(t.Context(), "worker-1", entry.Version)
	for _, err := range []error{err, errCreate, errReplace, errDelete} {
		assert.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, `record of node "worker-1": `)
		for _, o := range []error{store.ErrNotFound, store.ErrUnreadable, store.ErrConflict} {
			require.NotErrorIs(t, err, o)
		}
	}
	c.shows("worker-1", "ci")
}
