package doctor

// Names of checks that more than one file uses.
const (
	checkInstallation = "installation"
	checkRestore      = "restore-webhook"
	checkDeletion     = "deletion-webhook"
	checkEndpoints    = "webhook-endpoints"
	checkGate         = "gate-policy"
	checkGuards       = "guard-policies"
	checkWebhook      = "webhook-deployment"
	checkCapture      = "capture-deployment"
	checkRights       = "account-rights"
	checkPolicy       = "policy"
	checkClaims       = "claimed-keys"
	checkNotKept      = "not-kept"

	checkClosedNodes  = "closed-nodes"
	checkPausedItems  = "paused-items"
	checkEmergency    = "emergency"
	checkVerification = "verification"
	checkGovernance   = "governance"
)

// check is a question, and how what was read answers it.
type check struct {
	name  string
	judge func(Installation) answer
}

func checks() []check {
	return []check{
		{"api-server", judgeAPIServer},
		{"clock", judgeClock},
		{checkInstallation, judgeInstallation},
		{checkEmergency, judgeEmergency},
		{checkRestore, judgeRestoreWebhook},
		{checkDeletion, asShipped(checkDeletion, "configured for the DELETE of Nodes, fails open")},
		{"certificate", judgeCertificate},
		{"ca-bundle", judgeCABundle},
		{checkEndpoints, judgeEndpoints},
		{"webhook-answers", judgeAnswers},
		{checkGate, judgeGatePolicy},
		{"gate-in-force", judgeGateInForce},
		{checkGuards, judgeGuardPolicies},
		{"admission-rules", judgeAdmissionRules},
		{checkWebhook, func(s Installation) answer {
			return judgeDeployment(s, checkWebhook, s.webhookDeployment(), "webhook", webhookDownEffect)
		}},
		{checkCapture, func(s Installation) answer {
			return judgeDeployment(s, checkCapture, s.captureDeployment(), "capture", unrecordedEffect)
		}},
		{"versions", judgeVersions},
		{"leader", judgeLeader},
		{checkPolicy, judgePolicy},
		{"label-rules", judgeLabelRules},
		{"inventory", judgeInventory},
		{"migrations", judgeMigrations},
		{"your-rights", judgeCallerRights},
		{checkRights, asShipped(checkRights, "webhook and capture have the rights that they need")},
		{"records", judgeRecords},
		{"record-labels", judgeRecordLabels},
		{"quarantine", judgeQuarantine},
		{"gated-nodes", judgeGatedNodes},
		{checkClosedNodes, judgeClosedNodes},
		{checkPausedItems, judgePausedItems},
		{checkClaims, judgeClaims},
		{checkNotKept, judgeNotKept},
		{checkVerification, judgeVerification},
		{checkGovernance, judgeGovernance},
	}
}
