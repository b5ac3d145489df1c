package examine

import (
	"context"
	"crypto/x509"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/metadata"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/webhook"
)

// dryRuns is how many Nodes with a name are tried: there are several replicas.
const dryRuns = 3

// dryRunNamed creates a Node with a name as a dry run: the webhook stamps it.
func (e *examination) dryRunNamed(ctx context.Context) (nodes []corev1.Node, err error) {
	for range dryRuns {
		node, err := e.dryRun(ctx, metav1.ObjectMeta{Name: webhook.ProbeNode + rand.String(8)})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, *node)
	}
	return nodes, nil
}

// dryRunUnnamed makes a dry-run CREATE of a Node whose name the API server generates after admission. The webhook has no name to look up and lets the Node
// pass. So the effect of the gate policy is visible.
func (e *examination) dryRunUnnamed(ctx context.Context) (*corev1.Node, error) {
	return e.dryRun(ctx, metav1.ObjectMeta{GenerateName: webhook.ProbeNode})
}

// dryRun returns what the API server would make of a creation.
func (e *examination) dryRun(ctx context.Context, meta metav1.ObjectMeta) (*corev1.Node, error) {
	node, err := e.dryRunClient.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: meta}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	rule, denied := denyingRule(err)
	if denied || apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "cannot create resource") {
		return nil, refusedError{admission: rule, cause: err}
	}
	return node, err
}

// servedCertificates notes the certificates that answers to dry runs show.
type servedCertificates struct {
	mu     sync.Mutex
	chains [][]*x509.Certificate
}

// HandleWarningHeader is for client-go. Other warnings are about the Node of the dry run, and are dropped.
func (s *servedCertificates) HandleWarningHeader(_ int, _, text string) {
	if chain, ok := webhook.CertificatesIn(text); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.chains = append(s.chains, chain)
	}
}

// earliestExpiring returns the chain that ends first: replicas may serve different ones.
func (s *servedCertificates) earliestExpiring() []*x509.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.chains) == 0 {
		return nil
	}
	return slices.MinFunc(s.chains, func(a, b []*x509.Certificate) int { return a[0].NotAfter.Compare(b[0].NotAfter) })
}

// refusedError reports that the dry-run creation of a Node was refused although the caller has the right to create Nodes: admission of the cluster that is
// not nodekeep's refuses a Node with so few fields.
type refusedError struct {
	admission string // as kubectl takes it; empty where the API server names none
	cause     error
}

func (e refusedError) Error() string {
	if e.admission == "" {
		return "the API server refuses the dry-run creation of a Node: " + e.cause.Error()
	}
	return e.admission + " denies the dry-run creation of a Node: " + e.cause.Error()
}

// denyingRule finds the admission rule that an error of the API server names as the one that denied a request. A denial by a policy
// may have any code.
func denyingRule(err error) (rule string, denied bool) {
	if err == nil {
		return "", false
	}
	if found := regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '[^']*' denied request`).FindStringSubmatch(err.Error()); found != nil {
		return "validatingadmissionpolicy/" + found[1], true
	}
	if found := regexp.MustCompile(`admission webhook "([^"]+)" denied the request`).FindStringSubmatch(err.Error()); found != nil {
		return "admission webhook " + found[1], true
	}
	return "", false
}

// lookAtRecords goes through all records.
func (e *examination) lookAtRecords(ctx context.Context) (records doctor.Records, err error) {
	for record, err := range e.ListRecords(ctx) {
		if err != nil {
			return doctor.Records{}, err
		}
		records.Add(record)
	}
	return records, nil
}

// unlabelledRecords returns ConfigMaps that are named as records and not labelled as such. Nothing but their names is read.
func (e *examination) unlabelledRecords(ctx context.Context) (names doctor.Sample[string], err error) {
	client, err := metadata.NewForConfig(e.Config)
	if err != nil {
		return names, err
	}
	configMaps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(e.Namespace)
	unmarked := metav1.ListOptions{LabelSelector: store.RecordLabel + "!=true"}
	for stray, err := range cluster.List[*metav1.PartialObjectMetadata](ctx, e.Cluster, e.RecordsRight("list"), configMaps, unmarked) {
		if err != nil {
			return names, err
		}
		if store.IsName(stray.Name) {
			names.Add(stray.Name)
		}
	}
	return names, nil
}

// lookAtNodes goes through all Nodes with their records. For Nodes that have been behind the gate for too long it finds the reason. Where the
// records cannot be read, only what the policy keeps is not known.
func (e *examination) lookAtNodes(ctx context.Context) (nodes doctor.Nodes, err error) {
	nodes.GateAfter = e.options.GateAfter
	gatedTooLong := map[string]nodestate.State{}
	inputs, known := e.inputs(ctx)
	if !known {
		inputs.Policy = policy.Default()
	}
	var recordsErr error
	var items impact.JudgedItems
	keys, profiles := e.seen.VerificationKeys(), e.seen.Profiles()
	asked := impact.NewAskedFacts(inputs.Policy, inputs.Devices, inputs.Features, e.serverTime())
	proofs := impact.NewProofs(profiles, string(e.seen.Gate()))
	nodes.Selected = impact.NewSelectedNodes(profiles, e.seen.ProfileFacts.Value.Facts, string(e.seen.Gate()), e.serverTime())
	for state, err := range e.ListReadableStates(ctx, &recordsErr) {
		if err != nil {
			return doctor.Nodes{}, err
		}
		node := state.Node
		if node == nil {
			continue
		}
		if nodes.Add(node, e.seen.Gate(), e.serverTime()) {
			gatedTooLong[node.Name] = state
		}
		nodes.AddVerification(node, keys, profiles, e.serverTime())
		nodes.AddClosed(node, closingCriteria(state, keys, profiles, e.seen.Gate()), e.serverTime())
		if e.seen.ItemsPaused.Value[node.UID] {
			nodes.ItemsPaused.Add(node.Name)
		}
		nodes.Selected.Add(node)
		proofs.Add(node)
		asked.Add(node)
		judged := state.Judge(inputs)
		if claims := policy.Claims(node.Annotations); len(claims) > 0 {
			nodes.AddClaims(node.Name, claims, judged.Items(), inputs.Policy)
		}
		if state.Unreadable == nil { // records has a finding of it
			items.Add(node.Name, judged)
		}
	}
	nodes.Unproved, nodes.Missing = e.unproved(ctx, proofs), asked.Missing()
	if recordsErr != nil {
		nodes.NotKept = doctor.NotKnown[[]doctor.NotKept](e.unknown(e.RecordsRight("list"), recordsErr))
		return nodes, nil
	}
	nodes.NotKept = doctor.Found(doctor.NotKeptOf(items.NotKept()))
	for i, waiting := range nodes.GatedTooLong.First {
		if known {
			nodes.GatedTooLong.First[i].Reason = view.SummaryOf(gatedTooLong[waiting.Name], inputs).Reason
		}
	}
	return nodes, nil
}

// closingCriteria returns what decides whether the Node of a state counts as closed for too long.
func closingCriteria(state nodestate.State, keys []string, profiles verify.Profiles, gate policy.Gate) doctor.ClosingCriteria {
	waits := state.AwaitsDecision()
	return doctor.ClosingCriteria{Gate: gate, Keys: keys, Profiles: profiles, Quarantined: waits}
}

// paused returns the Nodes on which capture has stopped correcting something, by Events of the last hour.
func (e *examination) paused(ctx context.Context) (map[types.UID]bool, error) {
	var events []corev1.Event
	reports := metav1.ListOptions{FieldSelector: fields.Set{"involvedObject.kind": "Node", "reason": capture.ItemPaused}.String()}
	for event, err := range cluster.List[*corev1.Event](ctx, e.Cluster, e.EventsRight(), e.Client.CoreV1().Events(doctor.EventsNamespace), reports) {
		if err != nil {
			return nil, err
		}
		events = append(events, *event)
	}
	return doctor.PausedOf(events, e.serverTime()), nil
}

// migrations returns the migrations of the policy. What they are about is only looked at if there are any.
func (e *examination) migrations(ctx context.Context) (all []*impact.Migration, err error) {
	inForce, err := e.seen.PolicyInForce()
	if err != nil || len(inForce.Migrations()) == 0 {
		return nil, nil //nolint:nilerr // that the policy is not known is a finding of its own
	}
	inputs, _ := e.inputs(ctx)
	for _, m := range inForce.Migrations() {
		all = append(all, impact.NewMigration(m, inForce))
	}
	return all, e.CountMigrations(ctx, inputs, all...)
}

// inputs returns what decisions depend on; it is not known where the policy is not.
func (e *examination) inputs(ctx context.Context) (inputs plan.Inputs, known bool) {
	inForce, err := e.seen.PolicyInForce()
	if err != nil {
		return plan.Inputs{}, false
	}
	inputs = e.PlanInputs(ctx, inForce)
	inputs.Now = e.serverTime()
	return inputs, true
}

// unproved returns the profiles whose checks neither a Node nor a trial has passed.
func (e *examination) unproved(ctx context.Context, proofs *impact.Proofs) doctor.Reading[[]impact.Unproved] {
	namespace := e.seen.ChecksNamespace()
	trials, err := e.GetTrials(ctx, namespace, proofs.UnprovedByNodes())
	if err != nil {
		return doctor.NotKnown[[]impact.Unproved](e.unknown(doctor.Right{Verb: "get", Resource: "configmaps", Namespace: namespace}, err))
	}
	return doctor.Found(proofs.Unproved(trials, e.Now()))
}

// profileFacts returns what the profiles of the policy name.
func (e *examination) profileFacts(ctx context.Context) (asked doctor.ProfileReading, _ error) {
	profiles := e.seen.Profiles()
	if profiles.Empty() {
		return asked, nil
	}
	facts, failed := e.GetProfileFacts(ctx, profiles, e.seen.Verifier())
	asked.Facts = facts
	for _, call := range failed {
		asked.Unread = append(asked.Unread, e.unknown(call.Right, call.Err))
	}
	return asked, nil
}
