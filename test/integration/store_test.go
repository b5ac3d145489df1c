package integration

import (
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/storetest"
)

func TestTheStoresContractHoldsOnTheRealAPIServerWithTheRightsOfCapture(t *testing.T) {
	asCapture := nodekeep.ClientFor(t, "nodekeep-capture")
	nodekeep.WithoutCapture(t, func() { // it would mark the records of Nodes that do not exist
		storetest.Contract(t, func(t *testing.T) storetest.Store {
			return storetest.ConfigMaps(t, asCapture, nodekeep.Admin, harness.Namespace)
		})
	})
}
