package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/webhook"
)

// nodeName reads the name of a Node as a user writes it, or as `-o name` prints it.
func nodeName(argument string) (string, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(argument, "node/"), "nodes/")
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("%q cannot be the name of a Node: %s", argument, wrong[0])
	}
	return name, nil
}

// withFollowed returns a state with what the Node follows on the machine that registers it.
func (c *session) withFollowed(ctx context.Context, state nodestate.State, request *admissionv1.AdmissionRequest) nodestate.State {
	if !state.MayFollow(c.inputs) {
		return state
	}
	machine := webhook.MachineOf(request, c.inputs.Policy)
	var records []record.Record
	for listed, err := range c.ListRecords(ctx) {
		if err != nil {
			return state.WithFollowedUnknown(err.Error())
		}
		sameMachine := func(r record.Record) bool { return machine.Agrees(r.Machine) }
		if r := listed.Entry.Record; listed.Err == nil && (sameMachine(r) || r.Followed != "" || slices.ContainsFunc(r.Earlier, sameMachine)) {
			records = append(records, r)
		}
	}
	return state.WithFollowed(machine, records, c.inputs)
}
