package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Left names every object of any kind that carries a label of nodekeep's. It leaves out the namespace, the records, the policy and its
// kind, which an uninstall keeps. It also leaves out objects with an owner. The garbage collector, which does not run here, deletes them after their owner.
func Left(ctx context.Context, c *Cluster) (left []string, err error) {
	admin, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return nil, fmt.Errorf("make admin client: %w", err)
	}
	client, err := metadata.NewForConfig(c.Admin())
	if err != nil {
		return nil, fmt.Errorf("make metadata client: %w", err)
	}
	kinds, err := admin.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, kinds))
	if err != nil {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	for resource := range resources {
		if resource == (schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}) {
			continue
		}
		for _, selector := range []string{"app.kubernetes.io/name=nodekeep", "app.kubernetes.io/part-of=nodekeep,app.kubernetes.io/name!=nodekeep"} {
			objects, err := client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
			}
			for _, object := range objects.Items {
				if object.Labels["nodekeep.dev/record"] != "true" && object.Annotations["helm.sh/resource-policy"] != "keep" && len(object.OwnerReferences) == 0 {
					left = append(left, strings.Join([]string{resource.Resource, object.Namespace, object.Name}, "/"))
				}
			}
		}
	}
	slices.Sort(left)
	return left, nil
}
