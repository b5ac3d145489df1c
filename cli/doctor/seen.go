package doctor

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Seen is what was read of an installation.
type Seen struct {
	Namespace string    // that nodekeep is said to be installed in
	Now       time.Time // by the API server's clock

	APIServer  Read[APIServer]
	InCluster  Read[*corev1.Namespace] // the namespace itself
	Mutating   Read[*admissionregistrationv1.MutatingWebhookConfiguration]
	Validating Read[*admissionregistrationv1.ValidatingWebhookConfiguration]
	// Certificate is the Secret that the webhook serves from, see [ServingSecret], without private keys.
	Certificate Read[*corev1.Secret]
	Service     Read[*corev1.Service]
	Endpoints   Read[[]discoveryv1.EndpointSlice] // of the Service
	Webhook     Read[*appsv1.Deployment]
	Capture     Read[*appsv1.Deployment]
	Pods        Read[[]corev1.Pod] // of both

	GateServed  Read[bool] // the API server has MutatingAdmissionPolicies
	GatePolicy  Read[*admissionregistrationv1.MutatingAdmissionPolicy]
	GateBinding Read[*admissionregistrationv1.MutatingAdmissionPolicyBinding]
	GateRole    Read[*rbacv1.Role]
	GateSwitch  Read[*rbacv1.RoleBinding]
	Policy      Read[*corev1.ConfigMap]

	// The guard policies; see [guard.Policies].
	Guard        Read[*admissionregistrationv1.ValidatingAdmissionPolicy]
	GuardBinding Read[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]
	Strip        Read[*admissionregistrationv1.MutatingAdmissionPolicy]
	StripBinding Read[*admissionregistrationv1.MutatingAdmissionPolicyBinding]

	// Named are Nodes as dry-run creations came back, one after the other. Unnamed is one without a name, which the webhook
	// lets pass as it is, and the gate policy does not.
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

	You      Read[string]      // the caller's name
	Yours    Read[[]HeldRight] // of those that commands need
	Accounts Read[[]HeldRight] // of those that the processes need
	Records  Read[Records]     // all of them
	Strays   Read[Few[string]] // ConfigMaps that are named as records and not labelled as such
	Gated    Read[GatedNodes]
}

// APIServer is what the API server says of itself.
type APIServer struct {
	Version string
	// Date is its clock, in whole seconds, and Asked and Answered what this machine's showed then.
	Date, Asked, Answered time.Time
}

// Leadership is the Lease of capture's leader.
type Leadership struct {
	Lease *coordinationv1.Lease
	At    time.Time // when it was read, by the API server's clock
	// Renewed says that it was renewed while it was looked at: somebody leads, whatever the clocks say.
	Renewed bool
}

// Names of what the manifests install.
const (
	Configuration     = "nodekeep" // both webhook configurations
	WebhookDeployment = "nodekeep-webhook"
	CaptureDeployment = "nodekeep-capture"
	Service           = WebhookDeployment                 // that the API server calls
	PodSelector       = "app.kubernetes.io/name=nodekeep" // of both processes
	Gate              = "nodekeep-gate"                   // the policy, its binding, and the Role and RoleBinding that switch it off by being gone

	policyName       = "nodekeep-policy"
	policyKey        = "policy.yaml"
	gateKey          = "gate-key"
	selfSignedSecret = "nodekeep-webhook-tls"
)

// check is a question, and how what was read answers it.
type check struct {
	name  string
	judge func(Seen) answer
}

func checks() []check {
	return []check{
		{"api-server", judgeAPIServer},
		{"clock", judgeClock},
		{"namespace", judgeNamespace},
		{"restore-webhook", judgeRestoreWebhook},
		{"deletion-webhook", judgeDeletionWebhook},
		{"certificate", judgeCertificate},
		{"ca-bundle", judgeCABundle},
		{"webhook-endpoints", judgeEndpoints},
		{"webhook-answers", judgeAnswers},
		{"gate-policy", judgeGatePolicy},
		{"gate-in-force", judgeGateInForce},
		{"guard-policies", judgeGuardPolicies},
		{"admission-rules", judgeAdmissionRules},
		{"webhook-deployment", judgeWebhookDeployment},
		{"capture-deployment", judgeCaptureDeployment},
		{"versions", judgeVersions},
		{"leader", judgeLeader},
		{"policy", judgePolicy},
		{"your-rights", judgeYourRights},
		{"account-rights", judgeAccountRights},
		{"records", judgeRecords},
		{"record-labels", judgeRecordLabels},
		{"quarantine", judgeQuarantine},
		{"gated-nodes", judgeGatedNodes},
	}
}
