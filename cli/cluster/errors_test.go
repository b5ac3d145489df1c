package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func TestADenialSaysWhichRightOfWhomIsMissing(t *testing.T) {
	c := &Cluster{Config: &rest.Config{Host: "https://there"}, Namespace: "nodekeep-system"}
	configmaps := schema.GroupResource{Resource: "configmaps"}
	denied := apierrors.NewForbidden(configmaps, "node.a", errors.New(`User "eve" cannot patch resource "configmaps" in API group "" in the namespace "nodekeep-system"`))
	reported := c.ExplainError(c.NodesRight("list"), denied).Error() // one call of several
	assert.Contains(t, reported, "you may not patch configmaps in namespace nodekeep-system")
	assert.Contains(t, reported, "kubectl create rolebinding nodekeep-operator-eve --clusterrole=nodekeep-operator-namespaced --user=eve -n nodekeep-system")

	denied = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(`User "eve" cannot list resource "nodes" in API group "" at the cluster scope`))
	assert.Contains(t, c.ExplainError(c.RecordsRight("list"), denied).Error(), "you may not list nodes in the whole cluster")

	quota := apierrors.NewForbidden(configmaps, "node.a", errors.New("exceeded quota: narrow"))
	assert.Equal(t, error(quota), c.ExplainError(c.RecordsRight("create"), quota), "it is no right that is missing")
}
