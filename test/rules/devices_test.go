package rules

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mayReadSlices grants capture the right that the chart grants with rules.devices.
func mayReadSlices(t *testing.T) {
	t.Helper()
	roles := nodekeep.Admin.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "nodekeep-capture", metav1.GetOptions{})
	require.NoError(t, err)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{resourcev1.GroupName}, Resources: []string{"resourceslices"}, Verbs: []string{"get", "list", "watch"}})
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// publish has the driver of a Node list these devices in a ResourceSlice, with the kubelet's identity. partly says that there is to be one more
// slice, which never comes. Without devices, the driver withdraws its slice.
func (w *world) publish(m *machine, cards []string, partly bool) (err error) {
	index := len(m.cards)
	m.cards, m.partly = cards, partly && len(cards) > 0
	slices, slice := w.clients[m.name].ResourceV1().ResourceSlices(), &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	switch {
	case index == 0 && len(cards) == 0:
		return nil
	case len(cards) == 0:
		return slices.Delete(w.t.Context(), m.name, metav1.DeleteOptions{})
	case index > 0:
		if slice, err = slices.Get(w.t.Context(), m.name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	pool := resourcev1.ResourcePool{Name: m.name, Generation: slice.Spec.Pool.Generation + 1, ResourceSliceCount: 1}
	if m.partly {
		pool.ResourceSliceCount = 2
	}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &m.name, Pool: pool}
	for n, card := range cards {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("card-%d", n), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"productName": {StringValue: &card}},
		})
	}
	if index > 0 {
		_, err = slices.Update(w.t.Context(), slice, metav1.UpdateOptions{})
	} else {
		_, err = slices.Create(w.t.Context(), slice, metav1.CreateOptions{})
	}
	return err
}
