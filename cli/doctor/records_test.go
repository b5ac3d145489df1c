package doctor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

func TestFindingsOfRecordsAndNodes(t *testing.T) {
	requireFindings(t, map[string]breakage{
		"a record cannot be read": {
			func(s *Installation) {
				s.Records.Value.Add(store.Listed{ConfigMap: "node.worker-1", Node: "worker-1", Err: errors.New("it is torn")})
			},
			[]string{"records: error: configmap/node.worker-1: nothing is restored from it, and its Node stays behind the gate: it is torn"},
		},
		"many records cannot be read": {
			func(s *Installation) {
				for i := range 12 {
					s.Records.Value.Add(store.Listed{ConfigMap: fmt.Sprintf("node.worker-%d", i), Err: errors.New("it is torn")})
				}
			},
			append(repeat(maxNamed, func(i int) string {
				return fmt.Sprintf("records: error: configmap/node.worker-%d: nothing is restored from it...", i)
			}),
				"records: error: : 2 more records cannot be read"),
		},
		"a record waits for a decision, one that was decided about does not": {
			func(s *Installation) {
				s.Records.Value.Add(store.Listed{Node: "worker-1", Entry: store.Entry{Record: record.Record{Quarantined: &record.Record{}}}})
				s.Records.Value.Add(store.Listed{Node: "worker-2", Entry: store.Entry{Record: record.Record{Quarantined: &record.Record{}}, AcceptedSide: store.OldMachine}})
				s.Records.Value.Add(store.Listed{Node: "worker-3"})
			},
			[]string{"quarantine: warning: configmap/node.worker-1: another machine has taken the name worker-1: nothing is restored on it before an operator says whose it is"},
		},
		"a record is nearly full": {
			func(s *Installation) {
				items := map[string]string{}
				for i := range 1500 {
					items[fmt.Sprintf("%0253d/%063d", i, i)] = fmt.Sprintf("%063d", i)
				}
				s.Records.Value.Add(store.Listed{Node: "worker-1", Entry: store.Entry{Record: record.New("worker-1", record.Object{UID: "a", Version: 1}, items)}})
			},
			[]string{"records: warning: configmap/node.worker-1: it has four fifths or more of the 524288 bytes that a record may have; a larger one is not written"},
		},
		"a record has lost its label": {
			func(s *Installation) { s.UnlabelledRecords.Value.Add("node.worker-1") },
			[]string{"record-labels: error: configmap/node.worker-1: it is named as a record and lacks the label nodekeep.dev/record=true: webhook and capture do not find it"},
		},
		"Nodes are stuck behind the gate": {
			func(s *Installation) {
				s.Nodes.Value.Add(gated("worker-1", 5*time.Minute), policy.DefaultGate, now)
				s.Nodes.Value.Add(gated("worker-2", 6*time.Minute), policy.DefaultGate, now)
				s.Nodes.Value.Add(gated("worker-3", 6*time.Minute), "example.com/other", now)
				s.Nodes.Value.Add(gated("worker-4", 30*time.Hour), policy.DefaultGate, now)
				s.Nodes.Value.GatedTooLong.First[1].Reason = "record cannot be read"
			},
			[]string{
				"gated-nodes: error: node/worker-2: it has been behind the gate for 6m and takes no new workloads",
				"gated-nodes: error: node/worker-4: it has been behind the gate for 30h and takes no new workloads: record cannot be read",
			},
		},
	})
	seen := healthy(t)
	seen.Nodes.Value.Add(gated("worker-1", time.Minute), policy.DefaultGate, now)
	assert.Equal(t, "3 of 101 Nodes are behind the gate, none for more than 5m", resultOf(t, RunChecks(seen, nil), "gated-nodes").Title)
}

func gated(name string, base time.Duration) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: now.Add(-base)}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other"}, policy.DefaultGate.Taint()}},
	}
}
