package doctor

import (
	"path/filepath"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

// Where capture may do everything, the API server cannot see an emergency.
func TestAnEmergencyIsFoundAndThatTheAPIServerDoesNotSeeItIs(t *testing.T) {
	rollAll(t)
	file := filepath.Join(harness.Manifests(), "emergency.yaml")
	run(t, "kubectl apply -f "+file)
	finds(t, "emergency")
	run(t, "kubectl create clusterrolebinding doctor-everything --clusterrole=cluster-admin --serviceaccount=nodekeep-system:nodekeep-capture")
	finds(t, "emergency-unseen")
	run(t, "kubectl delete clusterrolebinding doctor-everything")
	finds(t, "emergency")
	run(t, "kubectl delete -f "+file)
	isHealthy(t)
}
