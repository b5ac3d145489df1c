package doctor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// From switching verification on to switching it off while a Node waits. No controller runs, so its Lease is written by the test.
func TestVerificationThatCannotWorkIsFoundAndNodesThatItLeavesTaintedAre(t *testing.T) {
	rollAll(t)
	run(t, "kubectl -n kube-system create service clusterip kube-dns --tcp=53:53")
	defer run(t, "kubectl -n kube-system delete service kube-dns")
	file := filepath.Join(harness.Manifests(), "nodekeep-verify.yaml")
	run(t, "kubectl apply --server-side --force-conflicts -f "+file)
	rollAll(t) // its webhook and capture tolerate another taint
	finds(t, "verification-starts")
	roll(t, "nodekeep-verify", 2, "nodekeep:v1")
	lead(t, "nodekeep-verify")
	assert.Contains(t, isHealthy(t), "nodekeep-verify: 2 of 2 replicas are available; verifier leads; the policy has 1 profile")

	putBackDNS := removed(t, "-n kube-system service kube-dns")
	runs(t, finds(t, "verification-dns"), "kubectl get services --all-namespaces ")
	putBackDNS()
	isHealthy(t)

	run(t, "kubectl label namespace nodekeep-checks pod-security.kubernetes.io/enforce=privileged --overwrite")
	patch(t, "validatingadmissionpolicybinding nodekeep-verify", `{"op":"replace","path":"/spec/validationActions","value":["Warn"]}`)
	putBack := removed(t, "-n nodekeep-checks rolebinding nodekeep-verify-checks")
	remedies := finds(t, "verification-broken")
	runs(t, remedies, "kubectl label namespace")
	runs(t, remedies, "kubectl patch ")
	putBack()
	isHealthy(t)

	register(t, "doctor-unverified")
	run(t, "kubectl taint node doctor-unverified --overwrite nodekeep.dev/unverified:NoSchedule")
	run(t, "kubectl "+ns+" delete deployment nodekeep-verify")
	finds(t, "verification-gone")
	nodekeep.SetPolicy(t, policytest.Head)
	remedies = finds(t, "verification-left")
	runs(t, remedies, "kubectl taint nodes --all nodekeep.dev/unverified-")
	isHealthy(t)

	run(t, "kubectl "+ns+" delete lease nodekeep-verify")
	run(t, "kubectl delete node doctor-unverified")
	run(t, "kubectl delete --wait=false --ignore-not-found -f "+file+" -l 'app.kubernetes.io/component in (verify, checks)'")
	run(t, "kubectl delete --ignore-not-found validatingadmissionpolicy,validatingadmissionpolicybinding nodekeep-verify")
	finalized := []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"nodekeep-checks"},"spec":{}}`) // no controller does that here
	run(t, "kubectl replace --raw /api/v1/namespaces/nodekeep-checks/finalize -f "+fileOf(t, finalized))
	isHealthy(t)
}

// lead writes the Lease of a process for an hour.
func lead(t *testing.T, name string) {
	t.Helper()
	holder, seconds, now := "verifier", int32(3600), metav1.NewMicroTime(time.Now())
	_, err := nodekeep.Admin.CoordinationV1().Leases(harness.Namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}
