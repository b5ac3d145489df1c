package bed

import (
	"context"
	"log/slog"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// Workers is how many Nodes capture works on at once. The bare loop that it is compared with has as many writers.
const Workers = 64

// templateNode is the Node of the record that all others are copies of. Its name is as long as those of Names("node", n).
const templateNode = "node-template"

// AddRecords writes the records of Nodes in a bare loop, with only a CREATE each, in capture's name. It has as many loops as capture has workers.
func (b *Bed) AddRecords(ctx context.Context, nodes []string) measure.Load {
	return b.addRecords(ctx, b.Writer, harness.Namespace, nodes)
}

// AddRecordsIn makes a namespace and writes the records of Nodes into it, as an admin.
func (b *Bed) AddRecordsIn(ctx context.Context, namespace string, nodes []string) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := b.Admin.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	require.NoError(b, err)
	b.addRecords(ctx, b.Admin, namespace, nodes)
}

func (b *Bed) addRecords(ctx context.Context, client kubernetes.Interface, namespace string, nodes []string) measure.Load {
	template := b.template(ctx)
	configMaps := client.CoreV1().ConfigMaps(namespace)
	return b.Load(ctx, nodes, Workers, func(ctx context.Context, node string) error {
		_, err := configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: store.Name(node), Labels: template.Labels},
			Data:       map[string]string{store.DataKey: strings.ReplaceAll(template.Data[store.DataKey], templateNode, node)},
		}, metav1.CreateOptions{})
		return err
	})
}

// template returns a record as the store itself writes it, which it then is not any more.
func (b *Bed) template(ctx context.Context) *corev1.ConfigMap {
	records, err := store.NewConfigMaps(b.Writer, harness.Namespace, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	info := fullStatus.NodeInfo
	made := record.New(templateNode, record.Object{UID: "6f9b2c1e-8d47-4a53-9e0f-1c2b3a495867", Version: 1_000_000}, Kept())
	made.Machine = record.Machine{SystemUUID: info.SystemUUID, MachineID: info.MachineID}
	_, err = records.Put(ctx, made, "")
	require.NoError(b, err)
	template, err := b.records().Get(ctx, store.Name(templateNode), metav1.GetOptions{})
	require.NoError(b, err)
	require.NoError(b, b.deleteRecord(ctx, templateNode))
	return template
}

// records returns the ConfigMaps in the namespace of the records, for an admin.
func (b *Bed) records() corev1client.ConfigMapInterface {
	return b.Admin.CoreV1().ConfigMaps(harness.Namespace)
}

// DeleteRecords deletes the records of Nodes.
func (b *Bed) DeleteRecords(ctx context.Context, nodes []string) measure.Load {
	return b.Load(ctx, nodes, loaders, b.deleteRecord)
}

func (b *Bed) deleteRecord(ctx context.Context, node string) error {
	return b.records().Delete(ctx, store.Name(node), metav1.DeleteOptions{})
}

// CountRecords returns how many ConfigMaps there are in the namespace of the records. It costs nobody anything.
func (b *Bed) CountRecords(ctx context.Context) int {
	page, err := b.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(harness.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	require.NoError(b, err)
	return len(page.Items) + int(ptr.Deref(page.RemainingItemCount, 0))
}

// RecordText returns the record of a Node as it is stored, empty if there is none. It serves to compare builds, whose formats may differ.
func (b *Bed) RecordText(ctx context.Context, node string) string {
	cm, err := b.records().Get(ctx, store.Name(node), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	require.NoError(b, err)
	return cm.Data[store.DataKey]
}

// EachRecord calls seen with every record there is.
func (b *Bed) EachRecord(ctx context.Context, seen func(record.Record)) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return b.records().List(ctx, options)
	})
	pages.PageSize = pageSize
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: store.RecordLabel + "=true"}, func(object runtime.Object) error {
		listed := store.ListedOf(object.(*corev1.ConfigMap))
		seen(listed.Entry.Record)
		return listed.Err
	})
	require.NoError(b, err)
}
