package doctor

import (
	"crypto/x509"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/cli/impact"
)

// Seen is what was read of an installation.
type Seen struct {
	Namespace string    // that nodekeep is said to be installed in
	Now       time.Time // by the API server's clock

	APIServer Read[APIServer]
	InCluster Read[*corev1.Namespace] // the namespace itself
	Objects   []Object                // that are compared with the shipped ones; see [Shipped] and [Seen.Lookups]
	// Served is the certificate that the webhook serves, and its chain, as answers to dry runs show it. It is nil if no answer shows one.
	Served []*x509.Certificate
	// Certificate is the Secret of the serving certificate, see [Seen.ServingSecret], without private keys. It is read only if nothing shows what is
	// served.
	Certificate Read[*corev1.Secret]
	Endpoints   Read[[]discoveryv1.EndpointSlice] // of the Service
	Pods        Read[[]corev1.Pod]                // of all processes
	GateServed  Read[bool]                        // the API server has MutatingAdmissionPolicies

	// Named are Nodes as dry-run creations returned them, one after the other. Unnamed is a dry run without a name. The webhook ignores it, so a gate
	// on it is the gate policy's.
	Named   Read[[]corev1.Node]
	Unnamed Read[*corev1.Node]

	// Admission rules of the whole cluster. Those of nodekeep are among them.
	Policies      Read[[]admissionregistrationv1.ValidatingAdmissionPolicy]
	Bindings      Read[[]admissionregistrationv1.ValidatingAdmissionPolicyBinding]
	AllValidating Read[[]admissionregistrationv1.ValidatingWebhookConfiguration]
	AllMutating   Read[[]admissionregistrationv1.MutatingWebhookConfiguration]
	Kyverno       Read[[]unstructured.Unstructured] // ClusterPolicies and ValidatingPolicies
	Gatekeeper    Read[[]unstructured.Unstructured] // constraints

	Leader Read[Leadership]

	// The two objects that declare an emergency.
	EmergencyRole    Read[*rbacv1.Role]
	EmergencyBinding Read[*rbacv1.RoleBinding]

	You     Read[string]         // the caller's name
	Yours   Read[[]GrantedRight] // of those that commands need
	Records Read[Records]        // all of them
	Strays  Read[Sample[string]] // ConfigMaps that are named as records and not labelled as such
	Nodes   Read[Nodes]

	Paused Read[map[types.UID]bool] // Nodes on which capture has stopped correcting something; see [PausedOf]

	Policy     Read[*unstructured.Unstructured] // the NodePolicy
	Accepted   Read[*corev1.ConfigMap]          // which rules for labels are in force, and what was accepted
	Inventory  Read[*corev1.ConfigMap]          // what capture notes of the sources of the inventory
	Migrations Read[[]*impact.Migration]        // of the policy in force, counted

	VerifyLeader Read[Leadership]        // of the replicas that verify Nodes
	ChecksIn     Read[*corev1.Namespace] // the namespace of the Pods that check Nodes
	Asked        Read[Asked]             // what profiles name

	// Only where a profile removes Nodes.
	Groups Read[[]string]          // API groups that the API server serves
	Ledger Read[*corev1.ConfigMap] // the removals of the last 24 hours
}

// APIServer is what the API server says of itself.
type APIServer struct {
	Version string
	// Date is its clock, in whole seconds, and Asked and Answered what this machine's showed then.
	Date, Asked, Answered time.Time
}

// Leadership is the Lease of a leading replica, and what repeated reads of it have shown.
type Leadership struct {
	Lease    *coordinationv1.Lease
	Observed time.Time // when it was read, by the API server's clock
	// Renewed shows that it was renewed while it was watched: a replica leads, whatever the clocks say.
	Renewed bool
}

// Names of what the manifests install.
const (
	Configuration     = "nodekeep" // both webhook configurations
	WebhookDeployment = "nodekeep-webhook"
	CaptureDeployment = "nodekeep-capture"
	VerifyDeployment  = "nodekeep-verify"                 // its Lease and its policy have that name too
	Service           = WebhookDeployment                 // that the API server calls
	PodSelector       = "app.kubernetes.io/name=nodekeep" // of all processes
	// Gate is the policy, its binding, and the Role and RoleBinding without which it is off. It is also the ConfigMap with the gate's key.
	Gate    = "nodekeep-gate"
	GateKey = "gate-key" // of that ConfigMap

	PolicyName       = "default" // of the one NodePolicy
	PolicyDefinition = "nodepolicies.nodekeep.dev"

	selfSignedSecret = "nodekeep-webhook-tls"
)
