package bed

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodekeep.dev/nodekeep/test/harness"
)

// pageSize is how many objects are listed at once.
const pageSize = 2000

// Versions are the resourceVersions of objects by their names: what has the same ones was not written in between.
type Versions map[string]string

// NodeVersions are those of all Nodes.
func (b *Bed) NodeVersions(ctx context.Context) (Versions, error) {
	return b.versions(ctx, corev1.SchemeGroupVersion.WithResource("nodes"), "")
}

// RecordVersions are those of all ConfigMaps in the namespace of the records.
func (b *Bed) RecordVersions(ctx context.Context) (Versions, error) {
	return b.versions(ctx, corev1.SchemeGroupVersion.WithResource("configmaps"), harness.Namespace)
}

func (b *Bed) versions(ctx context.Context, resource schema.GroupVersionResource, namespace string) (Versions, error) {
	found := Versions{}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := b.Metadata.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list versions of %s: %w", resource.Resource, err)
		}
		for n := range page.Items {
			found[page.Items[n].Name] = page.Items[n].ResourceVersion
		}
		if options.Continue = page.Continue; page.Continue == "" {
			return found, nil
		}
	}
}

// Changed counts the objects that came, went or were written since.
func (v Versions) Changed(since Versions) (count int) {
	for name, version := range v {
		if since[name] != version {
			count++
		}
	}
	for name := range since {
		if _, still := v[name]; !still {
			count++
		}
	}
	return count
}
