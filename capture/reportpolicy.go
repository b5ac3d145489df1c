package capture

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/policy"
)

// reportDevices reports once why rules about devices decide nothing.
func (c *Controller) reportDevices(err error) {
	log, event := c.devices.news(err, c.leading.Load())
	if log {
		c.Logger.Warn("rules look at devices, and the resource slices cannot be read; until they can, these rules decide nothing, and new rules only add labels", "error", err)
	}
	if event {
		c.warnOfPolicy(FactsUnknown,
			"Rules look at devices, and the ResourceSlices cannot be read. Until they can, these rules set and remove nothing, and new rules only add labels. The chart grants the right with rules.devices=true; the API resource.k8s.io/v1 is there from Kubernetes 1.34 on. (%v)",
			err)
	}
}

// reportFeatures reports once why rules about features decide nothing. That NFD is not installed is no error.
func (c *Controller) reportFeatures(err error) {
	log, event := c.features.news(err, c.leading.Load())
	switch {
	case apierrors.IsNotFound(err) && log:
		c.Logger.Info("rules look at features of node feature discovery, which is not installed; until it is, these rules decide nothing")
	case apierrors.IsNotFound(err):
	case log:
		c.Logger.Warn("rules look at features, and the node feature objects cannot be read; until they can, these rules decide nothing, and new rules only add labels", "error", err)
	}
	if event && !apierrors.IsNotFound(err) {
		c.warnOfPolicy(FactsUnknown,
			"Rules look at features, and the NodeFeature objects cannot be read. Until they can, these rules set and remove nothing, and new rules only add labels. The chart grants the right with rules.features=true. (%v)",
			err)
	}
}

// ReportPolicy reports that the NodePolicy cannot be used, or was deleted.
func (c *Controller) ReportPolicy(err error) {
	if !c.leading.Load() {
		return // the leader says it
	}
	c.warnOfPolicy(PolicyInvalid, "The last good policy stays in force: %v", policy.Shortened(err.Error(), maxShownPolicyError))
}

// maxShownPolicyError is how many bytes of the errors in a policy are shown in an Event.
const maxShownPolicyError = 4 << 10

// warnOfPolicy creates an Event about the NodePolicy. kubectl describe shows the Event only with its UID. An Event without it is better than
// none.
func (c *Controller) warnOfPolicy(reason, format string, args ...any) {
	about := &corev1.ObjectReference{APIVersion: "nodekeep.dev/v1alpha1", Kind: "NodePolicy", Name: "default", UID: c.Object.UID()}
	c.Events.Eventf(about, corev1.EventTypeWarning, reason, format, args...)
}
