package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// AcceptedConfigMap is the ConfigMap of what is in force and what was accepted. So a restart is not taken for a new policy.
const AcceptedConfigMap = "nodekeep-accepted"

// Keys of that ConfigMap.
const (
	RulesInForce  = "inForce"  // rules that may remove and change labels, by their hash
	RulesAccepted = "accepted" // rules that an operator has accepted: nodekeep accept rules HASH

	RulesWithoutFeatures = "withoutFeatures" // the rules in force, if they were judged while no NodeFeature object could be read

	Corrected           = "corrected"           // on how many Nodes records removed or reverted items in the last hour, by minute
	CorrectionsAccepted = "correctionsAccepted" // when an operator has accepted that for any number of Nodes, for an hour: nodekeep accept corrections

	AcceptedPolicy = "policy.json" // the manifest of the policy that was accepted last, for a process that finds no NodePolicy which it can use
	AcceptedBefore = "before.json" // the one before it
)

// Rules knows which rules for labels are in force.
type Rules struct {
	client     kubernetes.Interface
	namespace  string
	emptyRules string
	logger     *slog.Logger
	inForce    atomic.Pointer[string]
}

// NewRules reads nothing yet. The parameter none is what is in force while the ConfigMap, or its key, was never there.
func NewRules(client kubernetes.Interface, namespace, emptyText string, logger *slog.Logger) *Rules {
	return &Rules{client: client, namespace: namespace, emptyRules: emptyText, logger: logger}
}

// How often the ConfigMap is read, and how long that may take.
const (
	rulesInterval = 5 * time.Second
	rulesTimeout  = 10 * time.Second
)

// Hold reports whether rules must only add labels. They are not in force, or the ConfigMap has never been read.
func (r *Rules) Hold(rules string) bool {
	inForce := r.inForce.Load()
	return inForce == nil || *inForce != rules
}

// Run reads the ConfigMap at once and every 5 s until ctx is done. While that fails, what was read last counts.
func (r *Rules) Run(ctx context.Context) {
	warned := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := r.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		if says := fmt.Sprint(err); err != nil && says != warned {
			r.logger.Warn("it cannot be read which rules for labels are in force; until then, new rules only add labels to Nodes that register",
				"configmap", AcceptedConfigMap, "error", err)
			warned = says
		} else if err == nil {
			warned = ""
		}
	}, rulesInterval)
}

// Read reads the ConfigMap once.
func (r *Rules) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rulesTimeout)
	defer cancel()
	found, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(ctx, AcceptedConfigMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	inForce, present := r.emptyRules, false
	if err == nil {
		if value, ok := found.Data[RulesInForce]; ok {
			inForce, present = value, true
		}
	}
	if present || r.inForce.Load() == nil { // that a client has deleted it changes no rules
		r.inForce.Store(&inForce)
	}
	return nil
}
