package store_test

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/store"
)

func TestRulesAreHeldUntilItIsKnownThatTheyAreInForce(t *testing.T) {
	inForce := func(rules string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: namespace}, Data: map[string]string{store.RulesInForce: rules}}
	}
	for name, c := range map[string]struct {
		objects []runtime.Object
		unread  bool
		free    []string
	}{
		"nothing has been read yet": {unread: true},
		"there is no ConfigMap":     {free: []string{"none"}},
		"rules are in force":        {objects: []runtime.Object{inForce("new")}, free: []string{"new"}},
		"the rules are emptied":     {objects: []runtime.Object{inForce("")}},
		"only something else was accepted": {objects: []runtime.Object{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: namespace}, Data: map[string]string{store.AcceptedPolicy: "{}"},
		}}, free: []string{"none"}},
		"they were accepted, and not yet in force": {objects: []runtime.Object{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: namespace}, Data: map[string]string{store.RulesInForce: "old", store.RulesAccepted: "new"},
		}}, free: []string{"old"}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := store.NewRules(fake.NewClientset(c.objects...), namespace, "none", slog.New(slog.DiscardHandler))
			if !c.unread {
				require.NoError(t, rules.Read(t.Context()))
			}
			var free []string
			for _, hash := range []string{"none", "old", "new"} {
				if !rules.Hold(hash) {
					free = append(free, hash)
				}
			}
			assert.Equal(t, c.free, free)
		})
	}
}

func TestAClientThatDeletesTheConfigMapOfTheRulesHoldsNoRules(t *testing.T) {
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: namespace}, Data: map[string]string{store.RulesInForce: "old"}})
	rules := store.NewRules(client, namespace, "none", slog.New(slog.DiscardHandler))
	require.NoError(t, rules.Read(t.Context()))
	require.NoError(t, client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), store.AcceptedConfigMap, metav1.DeleteOptions{}))
	require.NoError(t, rules.Read(t.Context()))
	assert.False(t, rules.Hold("old"))
	assert.True(t, rules.Hold("none"), "and lets none through either")
	_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, rules.Read(t.Context()))
	assert.False(t, rules.Hold("old"), "nor does one without the key")
}

func TestWhileTheRulesInForceCannotBeReadThoseThatWereReadLastCountAndOneWarningSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap, Namespace: namespace}, Data: map[string]string{store.RulesInForce: "old"}})
		var failing atomic.Bool
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return failing.Load(), nil, apierrors.NewServiceUnavailable("down")
		})
		var log bytes.Buffer
		rules := store.NewRules(client, namespace, "none", slog.New(slog.NewTextHandler(&log, nil)))
		go rules.Run(t.Context())
		synctest.Wait()
		assert.False(t, rules.Hold("old"))
		failing.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.False(t, rules.Hold("old"))
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("level=WARN")))
	})
}
