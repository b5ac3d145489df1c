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

// Installation is what was read of an installation.
type Installation struct {
	Namespace string    // that nodekeep is said to be installed in
	Now       time.Time // by the API server's clock

	APIServer       Reading[APIServer]
	NamespaceObject Reading[*corev1.Namespace] // the namespace itself
	ComparedObjects []Object                   // that are compared with the shipped ones; see [Shipped] and [Installation.LookupRoles]
	// ServedChain is the certificate that the webhook serves, and its chain, as answers to dry runs show it. It is nil if no answer shows one.
	ServedChain []*x509.Certificate
	// Certificate is the Secret of the serving certificate, see [Installation.ServingSecret], without private keys. It is read only if nothing shows what is
	// served.
	Certificate            Reading[*corev1.Secret]
	Endpoints              Reading[[]discoveryv1.EndpointSlice] // of the Service
	Pods                   Reading[[]corev1.Pod]                // of all processes
	MutatingPoliciesServed Reading[bool]                        // the API server has MutatingAdmissionPolicies

	// NamedDryRuns are Nodes as dry-run creations returned them, one after the other. UnnamedDryRun is one without a name. The webhook ignores it, so a gate
	// on it is the gate policy's.
	NamedDryRuns  Reading[[]corev1.Node]
	UnnamedDryRun Reading[*corev1.Node]

	// Admission rules of the whole cluster. Those of nodekeep are among them.
	ValidatingPolicies Reading[[]admissionregistrationv1.ValidatingAdmissionPolicy]
	ValidatingBindings Reading[[]admissionregistrationv1.ValidatingAdmissionPolicyBinding]
	AllValidating      Reading[[]admissionregistrationv1.ValidatingWebhookConfiguration]
	AllMutating        Reading[[]admissionregistrationv1.MutatingWebhookConfiguration]
	Kyverno            Reading[[]unstructured.Unstructured] // ClusterPolicies and ValidatingPolicies
	Gatekeeper         Reading[[]unstructured.Unstructured] // constraints

	CaptureLease Reading[Leadership]

	// The two objects that declare an emergency.
	EmergencyRole    Reading[*rbacv1.Role]
	EmergencyBinding Reading[*rbacv1.RoleBinding]

	Caller            Reading[string]         // the caller's name
	CallerRights      Reading[[]CheckedRight] // of those that commands need
	Records           Reading[Records]        // all of them
	UnlabelledRecords Reading[Sample[string]] // ConfigMaps that are named as records and not labelled as such
	Nodes             Reading[Nodes]

	ItemsPaused Reading[map[types.UID]bool] // Nodes on which capture has stopped setting an item; see [PausedOf]

	Policy            Reading[*unstructured.Unstructured] // the NodePolicy
	AcceptedConfigMap Reading[*corev1.ConfigMap]          // which rules for labels are in force, and what was accepted
	Inventory         Reading[*corev1.ConfigMap]          // what capture notes of the sources of the inventory
	Migrations        Reading[[]*impact.Migration]        // of the policy in force, counted

	VerifyLease           Reading[Leadership]        // of the replicas that verify Nodes
	ChecksNamespaceObject Reading[*corev1.Namespace] // the namespace of the Pods that check Nodes
	ProfileFacts          Reading[ProfileReading]    // what profiles name

	// Only where a profile removes Nodes.
	APIGroups Reading[[]string]          // API groups that the API server serves
	Ledger    Reading[*corev1.ConfigMap] // the removals of the last 24 hours
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
	WebhookConfigurationName = "nodekeep" // both webhook configurations
	WebhookDeployment        = "nodekeep-webhook"
	CaptureDeployment        = "nodekeep-capture"
	VerifyDeployment         = "nodekeep-verify"                 // its Lease and its policy have that name too
	WebhookServiceName       = WebhookDeployment                 // that the API server calls
	PodSelector              = "app.kubernetes.io/name=nodekeep" // of all processes
	// GateObjectName is the policy, its binding, and the Role and RoleBinding without which it is off. It is also the ConfigMap with the gate's key.
	GateObjectName   = "nodekeep-gate"
	GateConfigMapKey = "gate-key" // of that ConfigMap

	PolicyName = "default" // of the one NodePolicy
	PolicyCRD  = "nodepolicies.nodekeep.dev"

	selfSignedSecret = "nodekeep-webhook-tls"
)
