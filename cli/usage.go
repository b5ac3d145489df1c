package cli

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/selection"
)

// unread is a kind of objects that could not be read. It is not known what they select on.
type unread struct {
	Kind string
	Err  error
}

// selecting is a kind of objects that select Nodes.
type selecting struct {
	kind string
	to   access
	list func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
}

// selectingKinds are all that package selection looks into, in its order. Pods come last: there are the most of them.
func (c *cluster) selectingKinds() []selecting {
	core, apps, batch, storage, node := c.client.CoreV1(), c.client.AppsV1(), c.client.BatchV1(), c.client.StorageV1(), c.client.NodeV1()
	const everywhere = metav1.NamespaceAll
	return []selecting{
		{"Deployment", access{verb: "list", group: "apps", resource: "deployments"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return apps.Deployments(everywhere).List(ctx, o)
		}},
		{"StatefulSet", access{verb: "list", group: "apps", resource: "statefulsets"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return apps.StatefulSets(everywhere).List(ctx, o)
		}},
		{"DaemonSet", access{verb: "list", group: "apps", resource: "daemonsets"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return apps.DaemonSets(everywhere).List(ctx, o)
		}},
		{"ReplicaSet", access{verb: "list", group: "apps", resource: "replicasets"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return apps.ReplicaSets(everywhere).List(ctx, o)
		}},
		{"ReplicationController", access{verb: "list", resource: "replicationcontrollers"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.ReplicationControllers(everywhere).List(ctx, o)
		}},
		{"Job", access{verb: "list", group: "batch", resource: "jobs"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return batch.Jobs(everywhere).List(ctx, o)
		}},
		{"CronJob", access{verb: "list", group: "batch", resource: "cronjobs"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return batch.CronJobs(everywhere).List(ctx, o)
		}},
		{"PersistentVolume", access{verb: "list", resource: "persistentvolumes"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.PersistentVolumes().List(ctx, o)
		}},
		{"StorageClass", access{verb: "list", group: "storage.k8s.io", resource: "storageclasses"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return storage.StorageClasses().List(ctx, o)
		}},
		{"RuntimeClass", access{verb: "list", group: "node.k8s.io", resource: "runtimeclasses"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return node.RuntimeClasses().List(ctx, o)
		}},
		{"Pod", access{verb: "list", resource: "pods"}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.Pods(everywhere).List(ctx, o)
		}},
	}
}

// allUses lists every object that selects Nodes by labels, page by page. It calls see with the uses of each, and see must not change them. If the
// caller may not list a kind, it is returned in missing, and the next kinds are still read. Any other error ends the list.
func (c *cluster) allUses(ctx context.Context, see func(uses []selection.Use)) (missing []unread, err error) {
	for _, of := range c.selectingKinds() {
		for object, err := range all[runtime.Object](ctx, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := of.list(ctx, options)
			return list, c.failed(of.to, err)
		}) {
			var denied deniedError
			if errors.As(err, &denied) {
				missing = append(missing, unread{of.kind, denied})
				break
			}
			if err != nil {
				return missing, fmt.Errorf("list every %s: %w", of.kind, err)
			}
			if uses := selection.Of(object); len(uses) > 0 {
				see(uses)
			}
		}
	}
	return missing, nil
}
