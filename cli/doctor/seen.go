package doctor

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Seen is what was read of an installation.
type Seen struct {
	Namespace string    // that nodekeep is said to be installed in
	Now       time.Time // by the API server's clock

	APIServer Read[APIServer]
	InCluster Read[*corev1.Namespace] // the namespace itself
	Objects   []Object                // of the manifests; see [Shipped]
	// Certificate is the Secret that the webhook serves from, see [ServingSecret], without private keys.
	Certificate Read[*corev1.Secret]
	Endpoints   Read[[]discoveryv1.EndpointSlice] // of the Service
	Pods        Read[[]corev1.Pod]                // of both processes
	GateServed  Read[bool]                        // the API server has MutatingAdmissionPolicies

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

	You     Read[string]      // the caller's name
	Yours   Read[[]HeldRight] // of those that commands need
	Records Read[Records]     // all of them
	Strays  Read[Few[string]] // ConfigMaps that are named as records and not labelled as such
	Gated   Read[GatedNodes]
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

// Checks that compare objects with the shipped ones.
const (
	checkRestore   = "restore-webhook"
	checkDeletion  = "deletion-webhook"
	checkEndpoints = "webhook-endpoints"
	checkGate      = "gate-policy"
	checkGuards    = "guard-policies"
	checkWebhook   = "webhook-deployment"
	checkCapture   = "capture-deployment"
	checkRights    = "account-rights"
	checkPolicy    = "policy"
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
		{checkRestore, judgeRestoreWebhook},
		{checkDeletion, judgeDeletionWebhook},
		{"certificate", judgeCertificate},
		{"ca-bundle", judgeCABundle},
		{checkEndpoints, judgeEndpoints},
		{"webhook-answers", judgeAnswers},
		{checkGate, judgeGatePolicy},
		{"gate-in-force", judgeGateInForce},
		{checkGuards, judgeGuardPolicies},
		{"admission-rules", judgeAdmissionRules},
		{checkWebhook, judgeWebhookDeployment},
		{checkCapture, judgeCaptureDeployment},
		{"versions", judgeVersions},
		{"leader", judgeLeader},
		{checkPolicy, judgePolicy},
		{"your-rights", judgeYourRights},
		{checkRights, judgeAccountRights},
		{"records", judgeRecords},
		{"record-labels", judgeRecordLabels},
		{"quarantine", judgeQuarantine},
		{"gated-nodes", judgeGatedNodes},
	}
}
