package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
)

const namespace = "nodekeep-system"

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// healthy returns an installation of the very manifests, with verification, in which all is well.
func healthy(t *testing.T) Installation {
	t.Helper()
	ca := newAuthority(t)
	secret := &corev1.Secret{}
	secret.Data = map[string][]byte{certificateKey: ca.serving(t, now.Add(-24*time.Hour), now.Add(89*24*time.Hour), "nodekeep-webhook.nodekeep-system.svc"), authoritiesKey: ca.pem}
	seen := Installation{Namespace: namespace, Now: now, ComparedObjects: inCluster(t, "crd.yaml", "nodekeep.yaml", "nodekeep-verify.yaml")}
	seen.bundle(ca.pem)
	seen.setPolicy(policyIn(t, "nodekeep-verify.yaml"))
	seen.accepts(map[string]string{store.AcceptedPolicy: inJSON(t, policytest.Head)})
	var pods []corev1.Pod
	for _, name := range []string{webhookObject, captureObject, verifyObject} {
		edit(&seen, name, func(deployment *appsv1.Deployment) {
			deployment.Status.AvailableReplicas = *deployment.Spec.Replicas
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name + "-1", Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
			pod.Spec = *pod.Spec.DeepCopy()
			pod.Spec.Containers[0].Image = "nodekeep:v1" // not the version of this tree, which each release changes
			container := pod.Spec.Containers[0].Name
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ContainerStatuses: []corev1.ContainerStatus{{
				Name: container, Ready: true, ImageID: "sha256:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}}
			pods = append(pods, pod)
		})
	}
	stamped := corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{policy.StampAnnotation: "{}"}}}
	seen.APIServer = Found(APIServer{Version: "v1.36.3", Date: now, Asked: now, Answered: now.Add(100 * time.Millisecond)})
	seen.NamespaceObject = Found(&corev1.Namespace{})
	seen.EmergencyRole, seen.EmergencyBinding = Absent[*rbacv1.Role](), Absent[*rbacv1.RoleBinding]()
	seen.Certificate = Found(secret)
	seen.Endpoints = Found([]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{}, {Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}}})
	seen.Pods = Found(pods)
	seen.MutatingPoliciesServed = Found(true)
	seen.NamedDryRuns = Found([]corev1.Node{stamped, stamped, stamped})
	seen.UnnamedDryRun = Found(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{policy.DefaultGate.Taint()}}})
	seen.CaptureLease = Found(lease("worker-1_a", now.Add(-2*time.Second)))
	seen.VerifyLease = Found(lease("nodekeep-verify-1", now.Add(-2*time.Second)))
	seen.ChecksNamespaceObject = Found(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{podSecurity: restricted}}})
	seen.grantLookups()
	seen.ProfileFacts = Found(ProfileReading{Facts: impact.ProfileFacts{DNS: defaultDNS, Services: map[string]*impact.ServiceFacts{
		"default/kubernetes": {Service: &corev1.Service{}}, defaultDNS: dnsService(2),
	}}})
	seen.Caller = Found("jane")
	seen.Records = Found(Records{All: 130})
	seen.UnlabelledRecords = Found(Sample[string]{})
	seen.ValidatingPolicies = Found([]admissionregistrationv1.ValidatingAdmissionPolicy{})
	seen.ValidatingBindings = Found([]admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
	seen.AllValidating = Found([]admissionregistrationv1.ValidatingWebhookConfiguration{*decode[admissionregistrationv1.ValidatingWebhookConfiguration](seen, validatingObject).Value})
	seen.AllMutating = Found([]admissionregistrationv1.MutatingWebhookConfiguration{*decode[admissionregistrationv1.MutatingWebhookConfiguration](seen, mutatingObject).Value})
	seen.Kyverno = Found([]unstructured.Unstructured{})
	seen.Gatekeeper = Found([]unstructured.Unstructured{})
	seen.Nodes = Found(Nodes{All: 100, Gated: 2, GateAfter: 5 * time.Minute, NotKept: Found[[]NotKept](nil), Unproved: Found[[]impact.Unproved](nil)})
	seen.ItemsPaused = Found(map[types.UID]bool{})
	seen.Inventory = Absent[*corev1.ConfigMap]()
	seen.Migrations = Found([]*impact.Migration(nil))
	seen.CallerRights = Found(held(CallerRights(namespace)))
	return seen
}

// dnsService returns the DNS Service, with that many endpoints.
func dnsService(ready int) *impact.ServiceFacts {
	return &impact.ServiceFacts{Service: &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 53}}}}, Ready: &ready}
}

// grantLookups puts the Roles and RoleBindings that the profiles in force need into the cluster, and no others.
func (s *Installation) grantLookups() {
	s.ComparedObjects = slices.DeleteFunc(s.ComparedObjects, func(o Object) bool { return o.Shipped.GetName() == LookupRole })
	for _, object := range s.LookupRoles() {
		object.Live = Found(object.Shipped.DeepCopy())
		s.ComparedObjects = append(s.ComparedObjects, object)
	}
}

func held(rights []CheckedRight) []CheckedRight {
	for i := range rights {
		rights[i].Granted = true
	}
	return rights
}

func lease(holder string, renewed time.Time) Leadership {
	return Leadership{Observed: now, Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: renewed},
	}}}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "ca", NotBefore: now.Add(-365 * 24 * time.Hour)}, key)
	require.NoError(t, err)
	return authority{cert: ca, key: key, pem: encoded(ca.Raw)}
}

// serving returns the PEM of a certificate for a server.
func (a authority) serving(t *testing.T, from, to time.Time, names ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: from, NotAfter: to, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	return encoded(der)
}

func encoded(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
