package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
)

// keepReport writes the ConfigMap of a report, over the one of an earlier attempt.
func (c *Controller) keepReport(ctx context.Context, report verify.SavedReport) error {
	wanted, maps := reportMap(c.Namespace, report), c.Client.CoreV1().ConfigMaps(c.Namespace)
	_, err := maps.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: verify.Manager})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, wanted, metav1.CreateOptions{FieldManager: verify.Manager})
	}
	if err != nil {
		return fmt.Errorf("keep report of node %q: %w", report.Node, err)
	}
	return nil
}

// reportsAtOnce bounds an answer of the API server: after a policy that no Node passes, each Node has a report.
const reportsAtOnce = 200

// refusalsAtOnce ends a sweep: an admission policy may keep single reports, and an API server that is down keeps all.
const refusalsAtOnce = 10

// sweepReports removes reports that are older than the retention, unless their Node still waits to be verified. Trials of the
// checks in force stay.
func (c *Controller) sweepReports(ctx context.Context) {
	if !c.Leading() {
		return
	}
	maps := c.Client.CoreV1().ConfigMaps(c.Namespace)
	options := metav1.ListOptions{LabelSelector: verify.ReportLabel + "=true", Limit: reportsAtOnce}
	refused := 0
	for {
		list, err := maps.List(ctx, options)
		if err != nil {
			c.Logger.Warn("reports cannot be listed; old ones are removed later", "error", err)
			return
		}
		for _, object := range list.Items {
			if err := c.sweepReport(ctx, &object); ctx.Err() != nil {
				return
			} else if err != nil {
				c.Logger.Warn("old report cannot be removed; it is tried again later", "configMap", object.Name, "error", err)
				if refused++; refused >= refusalsAtOnce {
					return
				}
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return
		}
	}
}

func (c *Controller) sweepReport(ctx context.Context, object *corev1.ConfigMap) error {
	report, _ := verify.ParseSavedReport(object.Data[verify.ReportKey]) // one that cannot be read is as old as its ConfigMap
	created := object.CreationTimestamp.Time
	if report.Time.After(created) {
		created = report.Time
	}
	if c.Now().Sub(created) < c.Retention() || c.standing.isClosed(report.Node) || c.isOfTrial(report) {
		return nil
	}
	err := c.Client.CoreV1().ConfigMaps(c.Namespace).Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// isOfTrial reports whether a report is of a trial of checks in force. There is one for each profile at most.
func (c *Controller) isOfTrial(report verify.SavedReport) bool {
	profile, ok := c.Profiles().Named(report.Profile)
	return ok && report.TrialOf(profile)
}
