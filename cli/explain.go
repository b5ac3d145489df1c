package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// explainOptions are the flags of `explain`.
type explainOptions struct {
	*options
	review string
	record string
}

const explainLong = `Explain goes through the labels and taints of a Node and of its record. KEPT and WHY say whether the policy keeps a
label or taint, and why. WHY names the pattern of the policy, or the component that owns the key. It also names the
managers that set what is kept. With -o wide it lists the managers of every label, by metadata.managedFields, else by
the record.

IF IT REGISTERS says what would become of it if the Node's kubelet registered the Node now. The machine would be the
same, and the Node would have the labels that its kubelet has set. Nothing of this happens to the live Node:

  brought        the Node comes with it
  restored       while the Node is created, by the webhook
  inline         the same by the webhook restore-protected (labels.protected: inline)
  deferred       restored by capture, behind the gate
  not restored   recorded, and why not
  added          once, or by a rule

While an emergency is declared, AFTER THE EMERGENCY says the same of a registration after its end.

"Capture now" is what capture does about the live Node. If no capture runs, it says so.

If rules look at an inventory, a table shows the age of its facts: the time since each source last confirmed the facts
in use. It also shows what a source has wrong of the Node: another systemUUID, or attributes that cannot be used.

If the policy has machine.follow: true and there is no record, Follows names the record of another Node that the Node
would begin with, or says why there is none.

With --review it explains what the webhook answers to an AdmissionReview in a file, "-" for stdin. The record is the
cluster's or, with --record, one in a file. With --offline no cluster is asked at all; the policy is then the default
one, unless --policy names a file.

It decides nothing by itself: these are the functions by which webhook and capture decide.`

const explainExamples = `
	# Why is a label kept or not, and what would be restored
	nodekeep explain worker-1

	# The same under another policy
	nodekeep explain worker-1 --policy policy.yaml

	# What the webhook answers to a review
	nodekeep explain --review review.json

	# The same without a cluster
	nodekeep explain --review review.json --record record.json --policy policy.yaml --offline`

func newExplainCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &explainOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "explain (NODE | --review FILE) [flags]",
		Short:   "Why each label and taint of a Node is kept, and what a registration would get",
		Long:    explainLong,
		Example: explainExamples,
		GroupID: groupSee,
		Args: func(command *cobra.Command, args []string) error {
			switch {
			case o.review == "":
				return oneNode(command, args)
			case len(args) > 0:
				return fmt.Errorf("%s takes a Node or --review, not both: the review says which Node", command.CommandPath())
			}
			return nil
		},
	}, takesNode|hasOutput|hasPolicy, o)
	flags := command.Flags()
	flags.StringVar(&o.review, "review", "", "AdmissionReview to explain, JSON or YAML; - for stdin")
	flags.StringVar(&o.record, "record", "", "with --review, a file with the record (key record.json of its ConfigMap) to use instead of the cluster's; - for stdin")
	flags.BoolVar(&o.offline, "offline", false, "with --review, ask no cluster")
	for _, file := range []string{"review", "record"} {
		_ = command.MarkFlagFilename(file, "json", "yaml", "yml")
	}
	return command
}

func (o *explainOptions) validate() error {
	switch {
	case o.review == "" && (o.offline || o.record != ""):
		return errors.New("--offline and --record go with --review")
	case o.review == "-" && o.record == "-":
		return errors.New("only one of --review and --record can be stdin")
	}
	return nil
}

func (o *explainOptions) rights(c *session, args []string) []doctor.Right {
	if o.review != "" { // which record is only known once the review is read
		return nil
	}
	return c.nodeAndRecordRights(args[0])
}

func (o *explainOptions) run(ctx context.Context, c *session, args []string) error {
	if o.review != "" {
		if !o.offline {
			c.applyEmergency(ctx)
		}
		return o.explainReview(ctx, c)
	}
	c.applyEmergency(ctx)
	state, err := c.RequireState(ctx, args[0])
	if err != nil {
		return err
	}
	request, err := state.Registration(c.inputs)
	if err != nil {
		return err
	}
	explanation := view.Explain(c.withFollowed(ctx, state, request), request, c.inputs).WithCaptureStatus(c.captureLeader(ctx))
	if explanation.Inventories, err = c.explainedInventories(ctx, args[0]); err != nil {
		return err
	}
	if explanation.RulesHeld != "" {
		state, err := c.GetAcceptedConfigMap(ctx)
		if err != nil {
			return err
		}
		explanation.RulesHeldUntil = view.HeldUntil(c.inForce, ptr.Deref(state, corev1.ConfigMap{}).Data[store.RulesAccepted])
	}
	return o.write(c, "NodeExplanation", explanation)
}

// explainedInventories returns the sources that rules use, by what capture notes of them.
func (c *session) explainedInventories(ctx context.Context, node string) ([]view.ExplainedInventory, error) {
	if !c.inputs.Policy.LabelRules().LooksAtInventory() {
		return nil, nil
	}
	notes, err := c.GetInventoryState(ctx)
	if err != nil {
		return nil, err
	}
	return view.InventoriesOf(node, notes, c.inputs.Policy, c.inputs.Now), nil
}

func (o *explainOptions) explainReview(ctx context.Context, c *session) error {
	request, err := o.readReview()
	if err != nil {
		return asUsage(fmt.Errorf("--review %s: %w", o.review, err))
	}
	state := nodestate.State{Name: webhook.NodeOf(request)}
	switch {
	case o.record != "":
		content, err := readFile(o.record, o.In)
		if err != nil {
			return asUsage(fmt.Errorf("--record: %w", err))
		}
		record, err := store.Decode(content, state.Name)
		if err != nil {
			return asUsage(fmt.Errorf("--record %s: %w", o.record, err))
		}
		state.Record = &record
	case o.offline && state.MayFollow(c.inputs):
		state = state.WithFollowedUnknown("records are not read with --offline")
	case !o.offline && state.Name != "":
		if state, err = c.AddRecord(ctx, state); err != nil {
			return err
		}
		state = c.withFollowed(ctx, state, request)
	}
	return o.write(c, "NodeExplanation", view.ExplainReview(state, request, c.inputs))
}

func (o *explainOptions) readReview() (*admissionv1.AdmissionRequest, error) {
	content, err := readFile(o.review, o.In)
	if err != nil {
		return nil, err
	}
	if !json.Valid(content) { // JSON is read just as it came
		if content, err = yaml.YAMLToJSON(content); err != nil {
			return nil, err
		}
	}
	review, err := webhook.DecodeReview(content)
	return review.Request, err
}
