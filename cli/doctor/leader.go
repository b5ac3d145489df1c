package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/capture"
)

const leaseObject = "lease/" + capture.LeaseName

// holder returns who leads, or led last.
func (l Leadership) holder() string {
	return cmp.Or(ptr.Deref(l.Lease.Spec.HolderIdentity, ""), "nobody")
}

// leaseDuration returns how long a leader counts as one after its last renewal.
func (l Leadership) leaseDuration() time.Duration {
	return time.Duration(ptr.Deref(l.Lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// MayBeStale reports whether the Lease alone does not show that a replica leads: only a renewal shows it.
func (l Leadership) MayBeStale() bool {
	if l.holder() == "nobody" || l.Lease.Spec.RenewTime == nil {
		return true
	}
	age := l.Observed.Sub(l.Lease.Spec.RenewTime.Time)
	return age > l.leaseDuration() || age < -maxClockSkew
}

// leads reports whether a replica is known to lead.
func (l Leadership) leads() bool { return l.Renewed || !l.MayBeStale() }

// LeaderlessFor is for how long nobody has led; 0 while a replica leads.
func (l Leadership) LeaderlessFor() time.Duration {
	if l.leads() {
		return 0
	}
	last := l.Lease.CreationTimestamp.Time
	if l.Lease.Spec.RenewTime != nil {
		last = l.Lease.Spec.RenewTime.Time
	}
	return max(l.Observed.Sub(last), time.Second) // the clock of a holder that was ahead makes the difference negative
}

// Update returns what a later look at the Lease shows.
func (l Leadership) Update(lease *coordinationv1.Lease, t time.Time) Leadership {
	later := Leadership{Lease: lease, Observed: t}
	later.Renewed = later.holder() != "nobody" && !lease.Spec.RenewTime.Equal(l.Lease.Spec.RenewTime)
	return later
}

// isOldLease reports whether a Lease is of an earlier installation. Then its holder has no Pod, and renewed it last before the Deployment was
// created.
func (s Installation) isOldLease(l Leadership, deployment Reading[*appsv1.Deployment]) bool {
	if l.Lease == nil || l.Lease.Spec.RenewTime == nil || !deployment.Found || !s.Pods.Found {
		return false
	}
	runs := slices.ContainsFunc(s.Pods.Value, func(pod corev1.Pod) bool { return strings.HasPrefix(l.holder(), pod.Name+"_") })
	return !runs && l.Lease.Spec.RenewTime.Time.Before(deployment.Value.CreationTimestamp.Time)
}

// startTimeout is how long after its Deployment was created a process may take until a replica leads.
const startTimeout = 2 * time.Minute

// isJustDeployed reports whether a Deployment was created so lately that no replica need lead yet.
func (s Installation) isJustDeployed(deployment Reading[*appsv1.Deployment]) bool {
	return s.Now.Sub(deployment.Value.CreationTimestamp.Time) <= startTimeout
}

// judgeLeader judges whether a capture leads. Without one nothing is recorded, and what waits behind the gate waits on.
func judgeLeader(seen Installation) answer {
	var a answer
	remedy := newRemedy("See why no capture runs:", seen.podsCommand("capture"), seen.logsCommand(CaptureDeployment))
	find := func(message string) {
		a.add(Error, leaseObject, remedy, "%s: edits are not recorded, and Nodes that wait behind the gate wait on", message)
	}
	if value, given := flagOf(seen.captureDeployment(), "leader-elect"); given && value == "false" {
		return answer{okText: "capture runs without an election"}
	}
	addUnknown(&a, leaseObject, seen.CaptureLease)
	leader := seen.CaptureLease.Value
	switch {
	case seen.CaptureLease.Absent:
		find("no capture has ever led")
	case !seen.CaptureLease.Found:
	case leader.leads():
		a.okText = leader.holder() + " leads"
	case seen.isOldLease(leader, seen.captureDeployment()):
		if seen.isJustDeployed(seen.captureDeployment()) {
			return answer{okText: "none yet: capture was installed moments ago"}
		}
		find("no capture has led since this one was installed")
	case leader.holder() == "nobody" || leader.Lease.Spec.RenewTime == nil:
		find("nobody leads, and nobody takes over")
	case leader.Lease.Spec.RenewTime.After(leader.Observed):
		find(fmt.Sprintf("nobody leads: %s, whose clock was ahead, does not renew it", leader.holder()))
	default:
		find(fmt.Sprintf("nobody leads: %s renewed the Lease last %s ago", leader.holder(), duration.HumanDuration(leader.Observed.Sub(leader.Lease.Spec.RenewTime.Time))))
	}
	return a
}
