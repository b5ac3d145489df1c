package nodepolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/api/v1alpha1"
	"nodekeep.dev/nodekeep/policy"
)

// How often the status is looked at without a change of the NodePolicy. And how old the count of Nodes in it may be.
const (
	reportEvery = 10 * time.Second
	countEvery  = time.Minute
)

// replicaLabels select the Pods that follow the NodePolicy.
const replicaLabels = "app.kubernetes.io/name=nodekeep,app.kubernetes.io/component in (webhook,capture,verify)"

// Reporter writes the status of the NodePolicy. One process should: the leader of capture. All fields are required.
type Reporter struct {
	Source  *Source
	Leading func() bool // and the Nodes are known
	Held    func() (held *v1alpha1.HeldRules, counted bool)
	Nodes   func() int // that live
	// Governed is why the API server does not go by the section governance; nil: it does. It is unread if that is only not known.
	Governed func(ctx context.Context) (unread bool, problem error)

	counted time.Time // when the status got the count of Nodes that it has
}

// Run keeps the status right until ctx is done, while this process leads.
func (r *Reporter) Run(ctx context.Context) {
	signals := make(chan struct{}, 1)
	go func() {
		ticker := time.NewTicker(reportEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			case <-r.Source.toReport:
			}
			signal(signals)
		}
	}()
	written(ctx, signals, r.report, func(err error) { r.Source.Logger.Warn("status of the NodePolicy cannot be written", "error", err) })
}

// report writes the status if it is not as it should be.
func (r *Reporter) report(ctx context.Context) error {
	latest, generation, follows := r.Source.acknowledgements()
	if latest == nil || !r.Leading() {
		return nil
	}
	s := situation{generation: generation, nodes: int64(r.Nodes())}
	for _, m := range r.Source.Policy().Migrations() {
		if m.Phase == policy.MigrateNew {
			s.finishes = m.From + "=" + m.To
		}
	}
	if !follows {
		s.trouble = r.Source.Err()
	}
	s.held, s.counted = r.Held()
	s.pods, s.running, s.unknown = r.replicas(ctx)
	if s.governs = !r.Source.Policy().Governance().Empty(); s.governs {
		s.unread, s.ungoverned = r.Governed(ctx)
	}
	prev := readStatus(latest.Object)
	if now := time.Now(); prev.Nodes != nil && *prev.Nodes != s.nodes && now.Sub(r.counted) < countEvery {
		s.nodes = *prev.Nodes
	} else {
		r.counted = now
	}
	fields, err := changeOf(prev, statusOf(prev, s, metav1.Now()))
	if err != nil || fields == nil {
		return err
	}
	return r.Source.writeStatus(ctx, fields)
}

// replicas returns the names of the Pods that follow the NodePolicy, and of those that run.
func (r *Reporter) replicas(ctx context.Context) (all, running []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pods, err := r.Source.Client.CoreV1().Pods(r.Source.Namespace).List(ctx, metav1.ListOptions{LabelSelector: replicaLabels, ResourceVersion: "0"})
	if err != nil {
		return nil, nil, err
	}
	for i := range pods.Items {
		all = append(all, pods.Items[i].Name)
		if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
			running = append(running, pods.Items[i].Name)
		}
	}
	return all, running, nil
}

// readStatus returns the status of an object. What is no status is none.
func readStatus(object map[string]any) (status v1alpha1.NodePolicyStatus) {
	fields, _ := object["status"].(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status) != nil {
		return v1alpha1.NodePolicyStatus{}
	}
	return status
}

// changeOf returns what to write so that a status becomes another one; nil: nothing.
func changeOf(prev, next v1alpha1.NodePolicyStatus) (map[string]any, error) {
	old, err := fieldsOf(prev)
	if err != nil {
		return nil, err
	}
	current, err := fieldsOf(next)
	if err != nil {
		return nil, err
	}
	change := map[string]any{}
	for _, field := range []string{"observedGeneration", "conditions", "held", "nodes"} {
		if !reflect.DeepEqual(old[field], current[field]) {
			change[field] = current[field] // nil removes it
		}
	}
	dropped := map[string]any{}
	for pod := range prev.ReadBy {
		if _, stays := next.ReadBy[pod]; !stays {
			dropped[pod] = nil
		}
	}
	if len(dropped) > 0 {
		change["readBy"] = dropped
	}
	if len(change) == 0 {
		return nil, nil
	}
	return change, nil
}

func fieldsOf(status v1alpha1.NodePolicyStatus) (fields map[string]any, err error) {
	encoded, err := json.Marshal(status)
	if err == nil {
		err = json.Unmarshal(encoded, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return fields, nil
}
