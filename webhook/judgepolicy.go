package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	"nodekeep.dev/nodekeep/policy"
)

// mostPolicyBytes is how large the manifest of a policy may be. The last two must have room in one ConfigMap, which takes 1 MiB.
const mostPolicyBytes = 448 << 10

// mostRefusalBytes is how much of the errors in a policy is shown.
const mostRefusalBytes = 64 << 10

// judgement is the answer to who writes a NodePolicy.
type judgement struct {
	refusal  string // all that is wrong with it; empty: nothing
	warnings []string
}

// judgePolicy judges the NodePolicy that a request would store. A change of anything but its spec is allowed, whatever the spec says.
func judgePolicy(request *admissionv1.AdmissionRequest, gate policy.Gate) judgement {
	writes := request.Operation == admissionv1.Create || request.Operation == admissionv1.Update
	if !writes || request.Kind.Group != "nodekeep.dev" || request.Kind.Kind != "NodePolicy" || request.SubResource != "" {
		return judgement{}
	}
	manifest, spec, err := decodePolicy(request.Object.Raw)
	if err != nil {
		return judgement{refusal: err.Error()}
	}
	_, old, wrong := decodePolicy(request.OldObject.Raw)
	asBefore := request.Operation == admissionv1.Update && wrong == nil && bytes.Equal(spec, old)
	if len(manifest) > mostPolicyBytes && !asBefore {
		return judgement{refusal: fmt.Sprintf("the policy has %d bytes as JSON; %d are the most", len(manifest), mostPolicyBytes)}
	}
	p, err := policy.LoadObject(manifest, gate)
	switch {
	case err == nil:
		return judgement{warnings: p.Warnings()}
	case asBefore:
		return judgement{warnings: []string{"this policy cannot be used; the last good one stays in force"}}
	case policy.IsNewer(err): // the schema lets the field pass, so a newer version is being installed
		return judgement{warnings: []string{policy.Shortened(strings.ReplaceAll(problems(err), "\n", " "), mostRefusalBytes), "replicas of this version go on with the last good policy until they are upgraded"}}
	}
	return judgement{refusal: policy.Shortened(problems(err), mostRefusalBytes)}
}

// decodePolicy reads what a user says in a NodePolicy, as plain JSON. Equal specs are equal bytes.
func decodePolicy(object []byte) (manifest, spec []byte, err error) {
	var content map[string]any
	if err := json.Unmarshal(object, &content); err != nil {
		return nil, nil, errors.Join(errors.New("the policy is no JSON object"), err)
	}
	metadata, _ := content["metadata"].(map[string]any)
	meta := map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": map[string]any{"name": metadata["name"]}}
	if value, ok := content["spec"]; ok {
		meta["spec"] = value
	}
	if manifest, err = json.Marshal(meta); err == nil {
		spec, err = json.Marshal(content["spec"])
	}
	return manifest, spec, err
}

// problems lists all that is wrong with a policy, each on a line.
func problems(err error) string {
	var errs policy.FileErrors
	if !errors.As(err, &errs) {
		return err.Error()
	}
	lines := []string{"the policy cannot be used:"}
	for _, fileErr := range errs {
		lines = append(lines, "- "+fileErr.Message)
	}
	return strings.Join(lines, "\n")
}
