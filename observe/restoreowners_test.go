package observe

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
)

// managed returns an entry of managedFields, as the API server writes it.
func managed(manager, operation, fields string) metav1.ManagedFieldsEntry {
	stamp := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: "v1", Time: &stamp, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestOwnersAreRestored(t *testing.T) {
	const (
		kubeletOwns = `{"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/os":{}}}}`
		rack        = `{"f:metadata":{"f:labels":{"f:rack":{}}}}`
		tier        = `{"f:metadata":{"f:labels":{"f:tier":{}}}}`
		rackAndTier = `{"f:metadata":{"f:labels":{"f:rack":{},"f:tier":{}}}}`
		note        = `{"f:metadata":{"f:annotations":{"f:example.com/note":{}}}}`
		ours        = `{"f:metadata":{"f:annotations":{"f:nodekeep.dev/restored":{}},"f:labels":{"f:derived":{},"f:rack":{},"f:tier":{}}},"f:spec":{"f:taints":{}}}`
	)
	const argo, label = record.Owners("Apply argocd-controller"), record.Owners("Update kubectl-label")
	type entries = []metav1.ManagedFieldsEntry
	kubelet := managed("kubelet", "Update", kubeletOwns)
	status := managed("argocd-controller", "Apply", `{"f:status":{}}`)
	status.Subresource = "status"
	for name, tt := range map[string]struct {
		prev   entries
		owners map[string]record.Owners
		want   []string // manager, operation and fields
	}{
		"in addition to the kubelet": {entries{kubelet}, map[string]record.Owners{"rack": argo, "tier": label}, []string{"kubelet Update " + kubeletOwns, "argocd-controller Apply " + rack, "kubectl-label Update " + tier}},
		"two own one label":          {entries{kubelet}, map[string]record.Owners{"rack": argo + "\n" + label}, []string{"kubelet Update " + kubeletOwns, "argocd-controller Apply " + rack, "kubectl-label Update " + rack}},
		"an annotation":              {nil, map[string]record.Owners{record.AnnotationKey("example.com/note"): argo}, []string{"argocd-controller Apply " + note}},
		"nodekeep's go":              {entries{managed("nodekeep", "Update", ours)}, map[string]record.Owners{"rack": argo, "tier": ""}, []string{`nodekeep Update {"f:metadata":{"f:annotations":{"f:nodekeep.dev/restored":{}},"f:labels":{"f:derived":{}}},"f:spec":{"f:taints":{}}}`, "argocd-controller Apply " + rack}},
		"all of nodekeep's go":       {entries{kubelet, managed("nodekeep", "Update", rack)}, map[string]record.Owners{"rack": ""}, []string{"kubelet Update " + kubeletOwns}},
		"one that is there":          {entries{managed("argocd-controller", "Apply", tier), kubelet}, map[string]record.Owners{"rack": argo}, []string{"argocd-controller Apply " + rackAndTier, "kubelet Update " + kubeletOwns}},
		"another operation of it":    {entries{managed("argocd-controller", "Update", tier)}, map[string]record.Owners{"rack": argo}, []string{"argocd-controller Update " + tier, "argocd-controller Apply " + rack}},
		"a subresource of it":        {entries{status}, map[string]record.Owners{"rack": argo}, []string{`argocd-controller Apply {"f:status":{}}`, "argocd-controller Apply " + rack}},
		"nothing to restore":         {entries{kubelet}, nil, []string{"kubelet Update " + kubeletOwns}},
	} {
		t.Run(name, func(t *testing.T) {
			sent, err := json.Marshal(tt.prev)
			require.NoError(t, err)
			stamp := metav1.NewTime(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
			updated, err := RestoreOwners(tt.prev, tt.owners, stamp)
			require.NoError(t, err)
			var got []string
			for _, entry := range updated {
				got = append(got, fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.FieldsV1.GetRawString()))
				assert.Equal(t, "v1", entry.APIVersion)
				assert.Equal(t, "FieldsV1", entry.FieldsType)
			}
			assert.Equal(t, tt.want, got)
			unchanged, err := json.Marshal(tt.prev)
			require.NoError(t, err)
			assert.JSONEq(t, string(sent), string(unchanged), "the list itself is not changed")
		})
	}
	_, err := RestoreOwners(entries{managed("nodekeep", "Update", "[")}, map[string]record.Owners{"rack": argo}, metav1.Time{})
	require.ErrorContains(t, err, `manager "nodekeep"`)
	updated, err := RestoreOwners(entries{managed("other", "Update", "[")}, map[string]record.Owners{"rack": argo}, metav1.Time{})
	require.NoError(t, err)
	assert.Len(t, updated, 2, "what others wrote is not read")
}
