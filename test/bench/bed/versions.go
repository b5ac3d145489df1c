package bed

import (
	"context"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"nodekeep.dev/nodekeep/test/harness"
)

// pageSize is how many objects are listed at once.
const pageSize = 2000

// Versions are the resourceVersions of objects by their names: what has the same ones was not written in between.
type Versions map[string]string

// NodeVersions returns those of all Nodes.
func (b *Bed) NodeVersions(ctx context.Context) Versions { return b.versions(ctx, "nodes", "") }

// RecordVersions returns those of all ConfigMaps in the namespace of the records.
func (b *Bed) RecordVersions(ctx context.Context) Versions {
	return b.versions(ctx, "configmaps", harness.Namespace)
}

func (b *Bed) versions(ctx context.Context, resource, namespace string) Versions {
	found := Versions{}
	objects := b.Metadata.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return objects.List(ctx, options)
	})
	pages.PageSize = pageSize
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		metadata := object.(*metav1.PartialObjectMetadata)
		found[metadata.Name] = metadata.ResourceVersion
		return nil
	})
	require.NoError(b, err)
	return found
}

// Changed counts the objects that came, went or were written since.
func (v Versions) Changed(base Versions) (count int) {
	for name, version := range v {
		if base[name] != version {
			count++
		}
	}
	for name := range base {
		if _, ok := v[name]; !ok {
			count++
		}
	}
	return count
}
