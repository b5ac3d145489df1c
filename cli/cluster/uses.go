package cluster

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/report"
	"nodekeep.dev/nodekeep/selection"
)

// selectingKind is a kind of objects that select Nodes.
type selectingKind struct {
	kind string
	list pager.ListPageFunc
}

func newSelectingKind[L runtime.Object](c *Cluster, group, kind string, client Lister[L]) selectingKind {
	resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return selectingKind{kind, pageLister(c, doctor.Right{Verb: "list", Group: group, Resource: resource.Resource}, client, metav1.ListOptions{})}
}

// selectingKinds returns all that package selection looks into, in its order. Pods come last: there are the most of them.
func (c *Cluster) selectingKinds() []selectingKind {
	core, apps, batch := c.Client.CoreV1(), c.Client.AppsV1(), c.Client.BatchV1()
	const everywhere = metav1.NamespaceAll
	return []selectingKind{
		newSelectingKind(c, appsv1.GroupName, "Deployment", apps.Deployments(everywhere)),
		newSelectingKind(c, appsv1.GroupName, "StatefulSet", apps.StatefulSets(everywhere)),
		newSelectingKind(c, appsv1.GroupName, "DaemonSet", apps.DaemonSets(everywhere)),
		newSelectingKind(c, appsv1.GroupName, "ReplicaSet", apps.ReplicaSets(everywhere)),
		newSelectingKind(c, "", "ReplicationController", core.ReplicationControllers(everywhere)),
		newSelectingKind(c, batchv1.GroupName, "Job", batch.Jobs(everywhere)),
		newSelectingKind(c, batchv1.GroupName, "CronJob", batch.CronJobs(everywhere)),
		newSelectingKind(c, "", "PersistentVolume", core.PersistentVolumes()),
		newSelectingKind(c, storagev1.GroupName, "StorageClass", c.Client.StorageV1().StorageClasses()),
		newSelectingKind(c, nodev1.GroupName, "RuntimeClass", c.Client.NodeV1().RuntimeClasses()),
		newSelectingKind(c, "", "Pod", core.Pods(everywhere)),
	}
}

// ListUses lists every object that selects Nodes by labels, page by page. It calls see with the uses of each, and see must not change them. If the
// caller may not list a kind, it is returned in notRead, and the next kinds are still read. Any other error ends the list.
func (c *Cluster) ListUses(ctx context.Context, see func(uses []selection.Use)) (notRead []report.NotRead, err error) {
	for _, kind := range c.selectingKinds() {
		for object, err := range listPages[runtime.Object](ctx, kind.list) {
			var denied DeniedError
			if errors.As(err, &denied) {
				notRead = append(notRead, report.NotRead{Kind: kind.kind, Reason: denied.Error()})
				break
			}
			if err != nil {
				return notRead, fmt.Errorf("list every %s: %w", kind.kind, err)
			}
			if uses := selection.Uses(object); len(uses) > 0 {
				see(uses)
			}
		}
	}
	return notRead, nil
}
