//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"nodekeep.dev/nodekeep/store"
)

// ownRecords returns the records of this run's Nodes, as they are stored.
func ownRecords(t *testing.T) map[string]string {
	t.Helper()
	list, err := installed.admin.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "nodekeep.dev/record=true"})
	require.NoError(t, err)
	records := map[string]string{}
	for _, cm := range list.Items {
		if strings.HasPrefix(cm.Name, "node.e2e-"+installed.run+"-") {
			records[cm.Name] = cm.Data[store.DataKey]
		}
	}
	require.NotEmpty(t, records)
	return records
}

// bundles returns the authorities that the API server is configured to trust, of every webhook of nodekeep.
func bundles(ctx context.Context) (found []string, err error) {
	mutating, err := installed.admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "nodekeep", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, hook := range mutating.Webhooks {
		found = append(found, string(hook.ClientConfig.CABundle))
	}
	validating, err := installed.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "nodekeep", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, hook := range validating.Webhooks {
		found = append(found, string(hook.ClientConfig.CABundle))
	}
	return found, nil
}

// watchBundles looks at the authorities whenever the mutating webhook configuration changes. lost ends that, and returns each time a webhook had none.
func watchBundles(t *testing.T) (lost func() []string) {
	t.Helper()
	watcher, err := installed.admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=nodekeep"})
	require.NoError(t, err)
	done := make(chan []string, 1)
	go func() {
		var seen []string
		for event := range watcher.ResultChan() {
			if event.Type == watch.Deleted {
				seen = append(seen, "it was deleted")
			}
			if found, err := bundles(t.Context()); err == nil {
				for _, bundle := range found {
					if bundle == "" {
						seen = append(seen, "a webhook had no caBundle at "+time.Now().Format("15:04:05.000"))
					}
				}
			}
		}
		done <- seen
	}()
	return func() []string {
		watcher.Stop()
		return <-done
	}
}

func keepsRecordsOverAnUpgrade(t *testing.T) {
	k, _ := known(t, "upgraded", ordinary())
	ignored := domain + "ignored"
	installed.nodes.Label(t, k.name, map[string]any{ignored: "yes"})
	node, err := read(t, k.name)
	require.NoError(t, err)
	remembered(t, node, requirer{labels: map[string]string{ignored: "yes"}})
	load := registerAllTheWhile(t, "upgrading", 2)
	records := ownRecords(t)
	args, err := bundles(t.Context())
	require.NoError(t, err)
	lost := watchBundles(t)

	values := installed.baseValues()
	values["policy"].(map[string]any)["labels"] = map[string]any{"ignore": []string{ignored}}
	values["pods"] = map[string]any{"annotations": map[string]string{mark: "upgraded"}}
	begun := time.Now()
	installed.upgrade(t, values)
	for _, name := range []string{webhookName, captureName} {
		installed.rolledOut(t, name)
	}
	load.end(t, fmt.Sprintf("an upgrade of %s", time.Since(begun).Round(time.Second)))

	require.Empty(t, lost())
	next, err := bundles(t.Context())
	require.NoError(t, err)
	require.Equal(t, args, next, "the authorities stay the same")
	now := ownRecords(t)
	for name, data := range records {
		if !strings.Contains(name, "upgrading") && !strings.Contains(name, "upgraded") { // those change
			require.Equal(t, data, now[name], "record %s", name)
		}
	}
	installed.nodes.DeleteNode(t, k.name)
	reread := k.register(t)
	require.Empty(t, ordinary().lacks(reread))
	require.NotContains(t, reread.Labels, ignored, "the new policy is in force")
}
