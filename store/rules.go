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

// RulesName is the ConfigMap that shows which rules for labels are in force. So a restart is not taken for a new policy.
const RulesName = "nodekeep-rules"

// Keys of that ConfigMap.
const (
	RulesInForce  = "inForce"  // rules that may remove and change labels, by their hash
	RulesAccepted = "accepted" // rules that an operator has accepted: nodekeep policy accept HASH

	Corrected           = "corrected"           // on how many Nodes records removed or reverted items in the last hour, by minute
	CorrectionsAccepted = "correctionsAccepted" // when an operator has accepted that for any number of Nodes, for an hour: nodekeep policy accept corrections
)

// Rules knows which rules for labels are in force.
type Rules struct {
	client    kubernetes.Interface
	namespace string
	none      string
	logger    *slog.Logger
	inForce   atomic.Pointer[string]
}

// NewRules reads nothing yet. none is what is in force where there has been no such ConfigMap.
func NewRules(client kubernetes.Interface, namespace, none string, logger *slog.Logger) *Rules {
	return &Rules{client: client, namespace: namespace, none: none, logger: logger}
}

// rulesTimeout bounds one read of the ConfigMap.
const rulesTimeout = 10 * time.Second

// Hold reports whether rules must only add labels. They are not in force, or the ConfigMap has never been read.
func (r *Rules) Hold(rules string) bool {
	inForce := r.inForce.Load()
	return inForce == nil || *inForce != rules
}

// Run reads the ConfigMap at each interval until ctx is done. While that fails, what was read last counts.
func (r *Rules) Run(ctx context.Context, interval time.Duration) {
	warned := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := r.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		if says := fmt.Sprint(err); err != nil && says != warned {
			r.logger.Warn("it cannot be read which rules for labels are in force; until then, new rules only add labels to Nodes that register",
				"configmap", RulesName, "error", err)
			warned = says
		} else if err == nil {
			warned = ""
		}
	}, interval)
}

// Read reads the ConfigMap once.
func (r *Rules) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rulesTimeout)
	defer cancel()
	found, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(ctx, RulesName, metav1.GetOptions{})
	inForce := r.none
	switch {
	case err == nil:
		inForce = found.Data[RulesInForce]
	case !apierrors.IsNotFound(err):
		return err
	case r.inForce.Load() != nil: // a client has deleted it, which changes no rules
		return nil
	}
	r.inForce.Store(&inForce)
	return nil
}
