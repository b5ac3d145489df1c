package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/storetest"
)

func TestTheStoresContractHoldsOnTheRealAPIServerWithTheRightsOfCapture(t *testing.T) {
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-capture")
	require.NoError(t, err)
	asCapture, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	nodekeep.WithoutCapture(t, func() { // it would mark the records of Nodes that do not exist
		storetest.Contract(t, func(t *testing.T) storetest.Store {
			return storetest.ConfigMaps(t, asCapture, nodekeep.Admin, harness.Namespace)
		})
	})
}
