package capture_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// All that the simulation knows of the product stands in this file and in export_test.go; the rest knows Nodes, records by what
// they remember, and the annotations by their names.

const (
	ourManager      = "nodekeep"
	stampAnnotation = policy.StampAnnotation
	ownerAnnotation = policy.TaintsAnnotation // lists the taints that rules made
	gate            = policy.DefaultGate
)

type (
	controller   = capture.Process
	pendingState = capture.PendingState
	policyFile   = policy.Policy
	recorded     = store.Record
	recordEntry  = store.Entry
	recordStore  = store.Memory
)

var errNoRecord = store.ErrNotFound

// asCached is a record as caches hold it.
func asCached(entry recordEntry) recordEntry {
	entry.Record = entry.Record.WithoutHistory()
	return entry
}

// remembered is each key that a record remembers, with its value.
func remembered(r recorded) map[string]string { return r.Remembered() }

// holdsNothing reports whether nothing is lost with a record.
func holdsNothing(r recorded) bool { return r.HoldsNothing() }

func saysDeleted(r recorded) bool { return r.DeletedAt != nil }

func newestObject(r recorded) types.UID { return r.UID }

// withoutReason reports whether a write changed nothing that is worth one.
func withoutReason(before, after recorded, byCapture bool) bool {
	return before.Same(after) && maps.EqualFunc(before.Later, after.Later, same) && maps.Equal(before.LaterVersions, after.LaterVersions) &&
		(byCapture && len(after.RuleTaints) == 0 || before.NodeResourceVersion == after.NodeResourceVersion)
}

func describeRecord(r recorded) string {
	return fmt.Sprintf("record{%s uid %s@%s %v shown %v withheld %v deleted: %t}", r.Node, r.UID, r.NodeResourceVersion, r.Items, r.Shown(), r.Withheld.Items, r.DeletedAt != nil)
}

// foreignRecord is a record that another cluster wrote.
func foreignRecord(name string, items map[string]string, deleted bool) recorded {
	r := store.Record{Node: name, UID: "of-another-cluster", NodeResourceVersion: "4000000000", Items: items}
	if deleted {
		r.DeletedAt = &metav1.Time{Time: epoch}
	}
	return r
}

// forgedStamp is an annotation that lists items as if nodekeep had set them.
func forgedStamp(items map[string]string) string {
	return policy.NewStamp(nil, nil).Given(items).String()
}

// loadPolicy reads a policy, which knows the rules of the one before.
func loadPolicy(text string, before *policy.Policy) policy.Policy {
	p, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\n"+text), policy.DefaultGate)
	if err != nil {
		panic(err)
	}
	if before != nil {
		p = p.After(*before)
	}
	return p
}

// capturePorts are what a process of capture needs of the cluster.
type capturePorts struct {
	client  kubernetes.Interface
	records interface {
		capture.Records
		capture.RemovableRecords
	}
	policy  func() policy.Policy
	guards  bool
	now     func() time.Time
	pause   time.Duration
	delayed func(name string, wait time.Duration)
}

func newProcess(p capturePorts) *capture.Process {
	return capture.NewProcess(capture.Options{
		Client: p.client, Records: p.records, Policy: p.policy, Events: &record.FakeRecorder{}, Guards: capture.KnownGuards(p.guards),
		Metrics: capture.NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Now: p.now,
		Sweep: capture.Sweep{Fraction: 1, Remover: capture.Removal{Records: p.records, Client: p.client}, Metrics: capture.NewSweepMetrics(prometheus.NewRegistry())},
	}, p.pause, p.delayed)
}

// recordDeletion is what the DELETE handler does about a Node that is about to be deleted.
func recordDeletion(nodes capture.Nodes, records capture.Records, current func() policy.Policy, guards bool, now func() time.Time, name string, uid types.UID) error {
	d := &capture.Deletions{Nodes: nodes, Records: records, Policy: current, Guards: capture.KnownGuards(guards), Now: now}
	return d.ReadAndRecord(context.Background(), name, uid)
}

// webhookMetrics are shared: nothing reads them.
var webhookMetrics = webhook.NewMetrics(prometheus.NewRegistry())

// reviewCreation is what the API server makes of a Node after the webhook's answer.
func reviewCreation(records webhook.Records, current func() policy.Policy, byKubelet bool, node *corev1.Node) *corev1.Node {
	object, err := json.Marshal(node)
	if err != nil {
		panic(err)
	}
	user := authenticationv1.UserInfo{Username: "administrator", Groups: []string{"system:masters"}}
	if byKubelet {
		user = authenticationv1.UserInfo{Username: "system:node:" + node.Name, Groups: []string{"system:nodes", "system:authenticated"}}
	}
	handler := webhook.NewHandler(records, current, webhookMetrics, slog.New(slog.DiscardHandler))
	response := handler.Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "review", Operation: admissionv1.Create, Name: node.Name, UserInfo: user,
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Node"}, Object: runtime.RawExtension{Raw: object},
	}})
	if !response.Allowed {
		panic("the webhook denies a Node")
	}
	if len(response.Patches) == 0 {
		return node
	}
	operations, err := json.Marshal(response.Patches)
	if err != nil {
		panic(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err == nil {
		object, err = patch.Apply(object)
	}
	if err != nil {
		panic(fmt.Sprintf("the API server cannot apply %s: %v", operations, err))
	}
	patched := &corev1.Node{}
	if err := json.Unmarshal(object, patched); err != nil {
		panic(err)
	}
	return patched
}

// taintKey names a taint as records do.
func taintKey(taint corev1.Taint) string { return policy.TaintItem(taint) }

// taintOf is the taint of a key.
func taintOf(key, value string) corev1.Taint { return policy.TaintOf(key, value) }

// itemsOf are labels and taints by key.
func itemsOf(labels map[string]string, taints []corev1.Taint) map[string]string {
	return policy.Items(labels, taints)
}

// rulesTaints are what the rules want on a Node.
func rulesTaints(p policy.Policy, labels map[string]string) []corev1.Taint {
	return slices.DeleteFunc(p.TaintsFor(labels), func(taint corev1.Taint) bool { return taintKey(taint) != ruleTaint })
}
