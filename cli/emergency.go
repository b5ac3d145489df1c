package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/webhook"
)

// emergencyManager is the field manager of the command.
const emergencyManager = "nodekeep-emergency"

// stopTimeout is how long the command waits, in addition to --settle, until the API server does not add the gate to dry runs any more (with --end: adds it
// again). Nodes that exist are opened even if the time has passed in vain.
const stopTimeout = 40 * time.Second

// errEmergency ends a command that would close a Node.
var errEmergency = errors.New("during an emergency no Node is verified")

// errUndeclared reports objects that declare nothing, after the command has created them.
var errUndeclared = errors.New("no emergency is declared, although its objects were created: another client has made or changed them. Run it again")

// errUnplanned ends a run of --end that would end an emergency that its plan did not show.
var errUnplanned = errors.New("nothing was changed: an emergency was declared after the plan was made. Run it again")

// emergency is one run of `emergency`. Each step is tried whatever became of the ones before it: all that went wrong is said at the end.
type emergency struct {
	nodeOpener
	endCommand     string              // the command that ends it
	awaitTimeout   time.Duration       // see [stopTimeout]
	closedBefore   []string            // the Nodes that nodekeep kept closed when the plan was made
	declaredBefore view.EmergencyState // whether an emergency was declared when the plan of its end was made
}

// emergencyOptions are the flags of `emergency`.
type emergencyOptions struct {
	*options
	settle, timeout time.Duration
	end             bool
}

const emergencyLong = `Emergency is for a nodekeep that is broken, while Nodes must take workloads. It needs none of the processes, and no
valid policy. It shows what it will do, and asks. Then:

1. It declares the emergency: it creates a Role and a RoleBinding, ` + manifests.EmergencyName + `. While both exist, the API server
   adds no gate and does not call the webhook for new Nodes. capture and verify keep no Node closed.
2. It waits until no API server adds the gate.
3. It lifts the gate of all Nodes, and removes the verification taints. Nodes may lack labels then, and are not
   verified. If one Node cannot be changed, the others are opened all the same.

These two objects are in no chart, so neither helm upgrade nor Argo CD or Flux ends the emergency: it lasts until --end
deletes the objects. Records stay, and capture goes on to record and restore labels. Profiles with mode report go on.

The API server cannot see an emergency if capture's ServiceAccount may do everything in the cluster, as with ClusterRole
cluster-admin, or if the gate is of an older nodekeep. Then the command deletes the objects that gate, and says so. It
does the same if new Nodes are still gated after 40 seconds and the time of --settle. A helm upgrade creates these
objects again.

With --end it ends the emergency, and waits up to 40 seconds and the time of --settle until nodekeep acts on new Nodes
again. Its plan says which Nodes are closed, which are checked again, and which stay open though they were not verified.

Dry runs prove what becomes of new Nodes. If they prove nothing, the exit code is 1. With --end the exit code is also 1
if nodekeep is deleted already (helm uninstall without its Job): the emergency is ended, and nothing acts on new Nodes.`

const emergencyExamples = `
	# What it would do
	nodekeep emergency --dry-run

	# Nodes must take workloads now
	nodekeep emergency --yes

	# nodekeep is well again
	nodekeep emergency --end`

func newEmergencyCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &emergencyOptions{options: newOptions(streams)}
	command := o.finishWithMethods(&cobra.Command{
		Use:     "emergency [flags]",
		Short:   "In an emergency: open all Nodes, and keep new ones open until --end",
		Long:    emergencyLong,
		Example: emergencyExamples,
		GroupID: groupAct,
	}, hasGateKey|hasConfirmation, o)
	flags := command.Flags()
	flags.BoolVar(&o.end, "end", false, "end the emergency: nodekeep gates and verifies new Nodes again")
	flags.DurationVar(&o.settle, "settle", 5*time.Second, "how long all dry runs must show the change before it counts as seen by every API server")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit for the whole command")
	return command
}

func (o *emergencyOptions) validate() error {
	if o.settle < 0 || o.timeout <= 0 {
		return errors.New("--settle must not be negative, and --timeout must be more than 0")
	}
	return nil
}

func (o *emergencyOptions) rights(c *session, _ []string) []doctor.Right {
	needed := []doctor.Right{c.NodesRight("list")}
	if o.dryRun {
		return needed
	}
	for _, object := range (&emergency{nodeOpener: nodeOpener{session: c}}).declarationObjects() { // what is left of a declaration is deleted and created again, so the right to delete is needed, too
		needed = append(needed, object.right)
	}
	if o.end {
		return needed
	}
	for _, resource := range []string{"roles", "rolebindings"} {
		needed = append(needed, doctor.Right{Verb: "create", Group: rbacv1.GroupName, Resource: resource, Namespace: c.Namespace})
	}
	return append(needed, c.NodesRight("get"), c.NodesRight("patch"))
}

func (o *emergencyOptions) run(ctx context.Context, c *session, _ []string) error {
	dryRun, err := webhook.NewDryRun(c.Config)
	if err != nil {
		return err
	}
	e := &emergency{nodeOpener: nodeOpener{c, dryRun, o.settle, emergencyManager}, endCommand: c.commandLine("emergency --end"), awaitTimeout: stopTimeout}
	plan, question, action := e.plan, "Declare the emergency?", e.declare
	if o.end {
		plan, question, action = e.endPlan, "End the emergency?", e.endEmergency
	}
	document, needed, err := plan(ctx)
	if err != nil || !needed {
		return err
	}
	if proceed, err := o.confirm(ctx, c, &proposal{document: document, question: question}); err != nil || !proceed {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return asInterrupted(ctx, action(limited))
}

// asInterrupted gives an error the exit code 130 if Ctrl-C has canceled ctx, and else 1.
func asInterrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return exitError{exitInterrupted, fmt.Errorf("interrupted: %w", err)}
	}
	return asFindings(err)
}

// dryRunRights returns the rights to a dry run of a registration. They are optional: without them nothing is proved.
func dryRunRights() []doctor.Right {
	return []doctor.Right{
		{Verb: "impersonate", Resource: "users", Name: "system:node:" + webhook.SelfTestNode},
		{Verb: "impersonate", Resource: "groups", Name: "system:nodes"},
	}
}

// commandLine returns a command for the installation that is meant.
func (c *session) commandLine(command string) string {
	if c.Namespace == DefaultNamespace {
		return program + " " + command
	}
	return program + " -n " + c.Namespace + " " + command
}

// applyEmergency reports whether an emergency is declared, and says so on stderr. The command then decides by a policy that closes no Node.
func (c *session) applyEmergency(ctx context.Context) bool {
	declared, err := c.GetEmergency(ctx)
	c.sayUnknown("Whether an emergency is declared", err)
	if line := declared.Line(c.commandLine("emergency --end"), c.Now()); line != "" {
		c.say("%s", line)
	}
	c.inputs.Policy = c.inputs.Policy.WithEmergency(declared.Active)
	return declared.Active
}

// unseenReason returns why the API server cannot see an emergency; empty: it can.
func (e *emergency) unseenReason(ctx context.Context) (reason string, err error) {
	allowed, err := e.captureIsClusterAdmin(ctx)
	if allowed {
		return "ServiceAccount " + doctor.CaptureDeployment + " may do everything", nil
	}
	object, unread := e.objectIgnoringEmergency(ctx)
	if object != "" {
		return object + " is of an older nodekeep, and has no condition " + noEmergency, nil
	}
	return "", errors.Join(err, unread)
}

// noEmergency is the match condition by which the API server sees an emergency.
const noEmergency = "no-emergency"

// objectIgnoringEmergency returns an object that gates, and that the API server evaluates in an emergency, too; empty: there is none.
func (e *emergency) objectIgnoringEmergency(ctx context.Context) (object string, err error) {
	admission := e.Client.AdmissionregistrationV1()
	conditional := func(conditions []admissionregistrationv1.MatchCondition) bool {
		return slices.ContainsFunc(conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == noEmergency })
	}
	gate, gateErr := admission.MutatingAdmissionPolicies().Get(ctx, gateObjectName, metav1.GetOptions{})
	if gateErr == nil && !conditional(gate.Spec.MatchConditions) {
		return "MutatingAdmissionPolicy " + gateObjectName, nil
	}
	calls, callsErr := admission.MutatingWebhookConfigurations().Get(ctx, webhookConfigurationName, metav1.GetOptions{})
	if callsErr == nil && slices.ContainsFunc(calls.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return !conditional(w.MatchConditions) }) {
		return "MutatingWebhookConfiguration " + webhookConfigurationName, nil
	}
	known := func(resource string, err error) error {
		if apierrors.IsNotFound(err) { // it gates no Node
			return nil
		}
		return e.ExplainError(doctor.Right{Verb: "get", Group: admissionGroup, Resource: resource}, err)
	}
	return "", errors.Join(known("mutatingadmissionpolicies", gateErr), known("mutatingwebhookconfigurations", callsErr))
}

// captureIsClusterAdmin reports whether capture's account may do everything, and so also what no emergency grants.
func (e *emergency) captureIsClusterAdmin(ctx context.Context) (bool, error) {
	group := "system:serviceaccounts"
	review, err := e.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + e.Namespace + ":" + doctor.CaptureDeployment, Groups: []string{group, group + ":" + e.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: e.Namespace, Verb: "continue", Group: nodepolicy.Resource().Group, Resource: "closing"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, e.ExplainError(doctor.Right{Verb: "create", Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"}, err)
	}
	return review.Status.Allowed, nil
}

// keys returns the result of [nodeOpener.verificationKeys], or the default key where the policy cannot be read.
func (e *emergency) keys(ctx context.Context) (keys []string, unknown error) {
	if keys, unknown = e.verificationKeys(ctx); unknown != nil {
		return []string{verify.Taint}, unknown
	}
	return keys, nil
}

func (e *emergency) sayKeysUnknown(err error) {
	if err != nil {
		e.say("The policy is not known, so only taints with the key %s are removed: %v", verify.Taint, err)
	}
}

// plan shows what a declaration would do now.
func (e *emergency) plan(ctx context.Context) (_ view.Document, needed bool, err error) {
	plan := view.Emergency{Cluster: e.Config.Host, Namespace: e.Namespace, EndCommand: e.endCommand}
	if plan.Declared, err = e.GetEmergency(ctx); err != nil {
		e.sayUnknown("Whether an emergency is declared already", err)
	}
	if plan.UnseenReason, err = e.unseenReason(ctx); err != nil {
		plan.UnknownReason, _, _ = strings.Cut(err.Error(), "\n")
	}
	if plan.Gated, err = e.nodesToFree(ctx, e.gateRemoval(time.Time{})); err != nil {
		return view.Document{}, false, err
	}
	keys, unknown := e.keys(ctx)
	e.sayKeysUnknown(unknown)
	if plan.Unverified, err = e.nodesToFree(ctx, verificationTaints(keys)); err != nil {
		return view.Document{}, false, err
	}
	e.closedBefore = sets.List(sets.New(plan.Gated...).Insert(plan.Unverified...))
	plan.Objects = e.toCreate(ctx)
	if plan.UnseenReason != "" {
		deleted, err := e.plannedSteps(ctx, e.gatingObjects())
		if err != nil {
			return view.Document{}, false, err
		}
		plan.Objects = append(plan.Objects, deleted...)
	}
	return plan.Document(e.Now()), true, nil
}

// toCreate returns the two objects as [emergency.createObjects] finds them.
func (e *emergency) toCreate(ctx context.Context) []view.ObjectStep {
	role, binding, err := e.GetEmergencyObjects(ctx)
	step := func(exists, right bool) string {
		switch {
		case err != nil:
			return "to be created, unless it is there"
		case right:
			return "there"
		case exists:
			return "to be replaced: it declares nothing"
		}
		return "to be created"
	}
	return []view.ObjectStep{
		{Kind: "Role", Name: manifests.EmergencyName, Step: step(role != nil, nodepolicy.Grants(role))},
		{Kind: "RoleBinding", Name: manifests.EmergencyName, Step: step(binding != nil, nodepolicy.Binds(binding))},
	}
}

// declare stops nodekeep from closing Nodes, and opens those that are closed.
func (e *emergency) declare(ctx context.Context) error {
	errs := []error{e.createObjects(ctx)} // first: it is what matters
	keys, unknown := e.keys(ctx)
	stopped, result, err := e.ensureUngated(ctx)
	errs = append(errs, err, e.freeAll(ctx, e.gateRemoval(stopped)), e.freeAll(ctx, verificationTaints(keys)))
	opened, err := e.formerlyClosedNodes(ctx, keys, unknown == nil)
	errs = append(errs, err)
	if err == nil {
		for _, line := range opened.Lines() {
			_ = e.printResult("%s", line)
		}
		errs = append(errs, opened.Err())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("not all could be done. Correct the cause, and run it again:\n%w", err)
	}
	result.EndCommand, result.DoctorCommand = e.endCommand, e.commandLine("doctor")
	for _, line := range result.Lines() {
		_ = e.printResult("%s", line)
	}
	return result.Err()
}

// formerlyClosedNodes returns what has become of the Nodes that were closed. Known says that the keys are all of the policy's.
func (e *emergency) formerlyClosedNodes(ctx context.Context, keys []string, known bool) (view.FormerlyClosedNodes, error) {
	opened := view.NewFormerlyClosedNodes(e.closedBefore, known)
	for node, err := range e.ListNodes(ctx) {
		if err != nil {
			return view.FormerlyClosedNodes{}, fmt.Errorf("list nodes: %w", err)
		}
		opened.Add(node, e.gate.Present(node.Spec.Taints) || len(withKeys(node.Spec.Taints, keys)) > 0)
	}
	return opened, nil
}

// ensureUngated waits until new Nodes are no longer gated. If the API server does not see the emergency, the objects that gate are deleted.
func (e *emergency) ensureUngated(ctx context.Context) (stopped time.Time, result view.DeclareResult, err error) {
	reason, unasked := e.unseenReason(ctx)
	if reason == "" {
		e.sayUnknown("Whether the API server sees the emergency", unasked)
		stopped, result, err = e.awaitUngatedInTime(ctx)
		result.Lasts = result.Lasts && unasked == nil // without that answer, an older webhook may only be down, and would gate again
		if err == nil || ctx.Err() != nil {
			return stopped, result, err
		}
		reason = fmt.Sprintf("it was not seen within %s that new Nodes are no longer gated", e.settleTime+e.awaitTimeout)
	} else {
		reason = "the API server cannot see the emergency: " + reason
	}
	_ = e.printResult("%s. So the objects that gate are deleted. A helm upgrade, Argo CD or Flux creates them again", reason)
	deleted := e.delete(ctx, e.gatingObjects()...)
	stopped, result, err = e.awaitUngatedInTime(ctx)
	return stopped, result, errors.Join(deleted, err)
}

func (e *emergency) awaitUngatedInTime(ctx context.Context) (stopped time.Time, result view.DeclareResult, err error) {
	waiting, cancel := context.WithTimeout(ctx, e.settleTime+e.awaitTimeout)
	defer cancel()
	stopped, refused, err := e.awaitUngated(waiting)
	if err != nil {
		return stopped, result, err
	}
	result.Refused = refused
	result.MissingObjects, err = e.missing(ctx)
	e.sayUnknown("Whether all objects are there that gate Nodes", err)
	result.Lasts = err == nil && !result.MissingObjects.NonEmpty()
	return stopped, result, nil
}

// freeAll changes all Nodes that need it, also those that come meanwhile. Each Node is tried once.
func (e *emergency) freeAll(ctx context.Context, removal taintRemoval) error {
	tried, errs := sets.New[string](), []error{}
	for range maxPasses {
		names, err := e.nodesToFree(ctx, removal)
		if err != nil {
			errs = append(errs, err)
			break
		}
		names = sets.List(sets.New(names...).Difference(tried))
		if len(names) == 0 {
			break
		}
		_, err = e.free(ctx, names, removal)
		errs = append(errs, err)
		tried.Insert(names...)
	}
	return errors.Join(errs...)
}

// createObjects creates the two objects. What is there already and declares no emergency is replaced.
func (e *emergency) createObjects(ctx context.Context) error {
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	documents := strings.Split(strings.ReplaceAll(manifests.Emergency, manifests.Namespace, e.Namespace), "\n---\n")
	if err := errors.Join(yaml.UnmarshalStrict([]byte(documents[0]), &role), yaml.UnmarshalStrict([]byte(documents[1]), &binding)); err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	existing, bound, err := e.GetEmergencyObjects(ctx)
	e.sayUnknown("What is there of "+manifests.EmergencyName, err)
	rbac, createOptions := e.Client.RbacV1(), metav1.CreateOptions{FieldManager: emergencyManager}
	objects := e.declarationObjects() // the RoleBinding, then the Role
	err = errors.Join(
		e.create(ctx, objects[1], existing != nil, nodepolicy.Grants(existing), func() error {
			_, err := rbac.Roles(e.Namespace).Create(ctx, &role, createOptions)
			return err
		}),
		e.create(ctx, objects[0], bound != nil, nodepolicy.Binds(bound), func() error {
			_, err := rbac.RoleBindings(e.Namespace).Create(ctx, &binding, createOptions)
			return err
		}))
	if err != nil {
		return err
	}
	switch declared, err := e.GetEmergency(ctx); {
	case err != nil:
		return fmt.Errorf("whether the emergency is declared is not known: %w", err)
	case !declared.Active:
		return errUndeclared
	}
	return nil
}

// create creates one object, unless it is there and right.
func (e *emergency) create(ctx context.Context, object managedObject, exists, right bool, create func() error) error {
	switch {
	case exists && right:
		return e.printResult("%s %s: is there", object.kind, object.name)
	case exists:
		if err := e.delete(ctx, object); err != nil {
			return err
		}
	}
	if err := create(); apierrors.IsAlreadyExists(err) {
		return e.printResult("%s %s: is there", object.kind, object.name)
	} else if err != nil {
		return fmt.Errorf("create %s %q: %w", object.kind, object.name, e.ExplainError(object.rightTo("create"), err))
	}
	return e.printResult("%s %s: created", object.kind, object.name)
}

// endPlan shows what the end would do now. Without an emergency nothing is to be done.
func (e *emergency) endPlan(ctx context.Context) (_ view.Document, needed bool, err error) {
	role, binding, err := e.GetEmergencyObjects(ctx)
	if err != nil {
		return view.Document{}, false, err
	}
	if role == nil && binding == nil {
		return view.Document{}, false, e.printResult("no emergency is declared in namespace %s", e.Namespace)
	}
	plan := view.EmergencyEnd{Cluster: e.Config.Host, Namespace: e.Namespace, RecheckCommand: e.commandLine("recheck --all")}
	if plan.Declared, err = e.GetEmergency(ctx); err != nil {
		return view.Document{}, false, err
	}
	if plan.Objects, err = e.plannedSteps(ctx, e.declarationObjects()); err != nil {
		return view.Document{}, false, err
	}
	e.declaredBefore = plan.Declared
	plan.MissingObjects, err = e.missing(ctx)
	e.sayUnknown("Whether all objects are there that gate Nodes", err)
	plan.GateComplete = err == nil && len(plan.MissingObjects.Gate) == 0
	plan.Unprovable = e.unprovable(ctx)
	if plan.Nodes, err = e.emergencyEndNodes(ctx, plan.Declared); err != nil {
		plan.Unknown = err.Error()
	}
	return plan.Document(e.Now()), true, nil
}

// unprovable returns the right that the caller lacks to prove the end; empty: no missing right is known.
func (e *emergency) unprovable(ctx context.Context) string {
	for _, right := range dryRunRights() {
		if allowed, err := e.CanI(ctx, right); err == nil && !allowed {
			return right.Denied()
		}
	}
	return ""
}

// missing returns the objects by which nodekeep acts on new Nodes, and that do not exist.
func (e *emergency) missing(ctx context.Context) (missing view.MissingObjects, err error) {
	objects := append(e.gatingObjects(), // and what these refer to
		managedObjectOf(doctor.Right{Group: admissionGroup}, "MutatingAdmissionPolicy", gateObjectName, e.Client.AdmissionregistrationV1().MutatingAdmissionPolicies()),
		managedObjectOf(doctor.Right{Group: rbacv1.GroupName, Namespace: e.Namespace}, "Role", gateObjectName, e.Client.RbacV1().Roles(e.Namespace)))
	var errs []error
	for _, object := range objects {
		switch err := object.get(ctx); {
		case !apierrors.IsNotFound(err):
			errs = append(errs, e.ExplainError(object.rightTo("get"), err))
		case object.name == webhookConfigurationName:
			missing.Webhook = append(missing.Webhook, object.kind+" "+object.name)
		default:
			missing.Gate = append(missing.Gate, object.kind+" "+object.name)
		}
	}
	return missing, errors.Join(errs...)
}

// emergencyEndNodes returns the Nodes that the end concerns.
func (e *emergency) emergencyEndNodes(ctx context.Context, declared view.EmergencyState) (impact.EmergencyEndNodes, error) {
	inForce, err := e.GetPolicyInForce(ctx, e.gate)
	if err != nil {
		return impact.EmergencyEndNodes{}, err
	}
	counter := impact.NewEmergencyEndCounter(inForce.Policy, declared.Active, declared.Created.Time, e.Now())
	for node, err := range e.ListNodes(ctx) {
		if err != nil {
			return impact.EmergencyEndNodes{}, fmt.Errorf("list nodes: %w", err)
		}
		counter.Add(node)
	}
	return counter.Nodes(), nil
}

// endEmergency ends the emergency of which the plan was made.
func (e *emergency) endEmergency(ctx context.Context) error {
	switch current, err := e.GetEmergency(ctx); {
	case err != nil:
		return exitError{exitNotDone, fmt.Errorf("nothing was changed: %w", err)}
	case current.Active && (!e.declaredBefore.Active || !current.Created.Equal(&e.declaredBefore.Created)):
		return exitError{exitNotDone, errUnplanned}
	}
	if err := e.delete(ctx, e.declarationObjects()...); err != nil {
		return err
	}
	missing, err := e.missing(ctx)
	e.sayUnknown("Whether all objects are there that gate Nodes", err)
	ended := view.EndResult{MissingObjects: missing, RecheckCommand: e.commandLine("recheck --all"), DoctorCommand: e.commandLine("doctor"), Undeclared: !e.declaredBefore.Active}
	switch {
	case ended.Undeclared:
	case len(missing.Gate) > 0 && len(missing.Webhook) > 0:
		ended.Unconfirmed = "neither the gate policy is in force, nor does the API server call the webhook"
	default:
		ended.Unconfirmed = e.proveEnd(ctx)
	}
	if ended.Nodes, err = e.emergencyEndNodes(ctx, e.declaredBefore); err != nil {
		e.sayUnknown("Which Nodes are open and not verified", err)
	}
	for _, line := range ended.Lines() {
		_ = e.printResult("%s", line)
	}
	return ended.Err()
}

// proveEnd proves by dry runs that nodekeep acts on new Nodes again, and returns why that is not proved; empty: it is.
func (e *emergency) proveEnd(ctx context.Context) string {
	waiting, cancel := context.WithTimeout(ctx, e.settleTime+e.awaitTimeout)
	defer cancel()
	switch _, refused, err := e.awaitDryRuns(waiting, true); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "nodekeep did not act on every dry run within --timeout"
	case ctx.Err() != nil:
		return "the wait was interrupted"
	case err != nil:
		return fmt.Sprintf("nodekeep did not act on every dry run within %s", e.settleTime+e.awaitTimeout)
	case refused != nil:
		return fmt.Sprintf("the API server refuses a dry run (%v)", refused)
	}
	return ""
}
