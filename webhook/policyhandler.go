package webhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
)

// NewPolicyHandler makes the handler that refuses a NodePolicy which nodekeep could not use. It answers from what the request has alone.
func NewPolicyHandler(gate policy.Gate) admission.Handler {
	return admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		judged := judgePolicy(&request.AdmissionRequest, gate)
		if judged.refusal != "" {
			return admission.Denied(judged.refusal)
		}
		return admission.Allowed("").WithWarnings(judged.warnings...)
	})
}
