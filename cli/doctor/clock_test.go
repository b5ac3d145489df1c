package doctor

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFindingsOfClocksNamespaceAndLeader(t *testing.T) {
	const unled = ": edits are not recorded, and Nodes that wait behind the gate wait on"
	requireFindings(t, map[string]breakage{
		"this machine's clock is behind": {
			func(s *Installation) { s.APIServer.Value.Date = now.Add(time.Minute) },
			[]string{"clock: warning: : this machine's clock is 59s behind the API server's: ages are shown wrong here"},
		},
		"this machine's clock is ahead": {
			func(s *Installation) { s.APIServer.Value.Date = now.Add(-time.Hour) },
			[]string{"clock: warning: : this machine's clock is 59m ahead of the API server's: ages are shown wrong here"},
		},
		"this machine's clock is off by no more than what an answer takes": {
			func(s *Installation) {
				s.APIServer.Value.Date, s.APIServer.Value.Answered = now.Add(-10*time.Second), now.Add(30*time.Second)
			}, nil,
		},
		"the leader's clock is ahead": {
			func(s *Installation) {
				s.CaptureLease.Value = lease("worker-1_a", now.Add(time.Hour))
				s.CaptureLease.Value.Renewed = true
			},
			[]string{"clock: warning: lease/nodekeep-capture: the clock of the leader, worker-1_a, is 60m ahead of the API server's: it writes down when Nodes went, by which records are collected"},
		},
		"the leader's clock is behind": {
			func(s *Installation) {
				s.CaptureLease.Value = lease("worker-1_a", now.Add(-2*time.Minute))
				s.CaptureLease.Value.Renewed = true
			},
			[]string{"clock: warning: lease/nodekeep-capture: the clock of the leader, worker-1_a, is 2m behind the API server's: it writes down when Nodes went, by which records are collected"},
		},
		"the leader has not renewed the Lease for too long": {
			func(s *Installation) { s.CaptureLease.Value = lease("worker-1_a", now.Add(-3*time.Minute)) },
			[]string{"leader: error: lease/nodekeep-capture: nobody leads: worker-1_a renewed the Lease last 3m ago" + unled},
		},
		"the leader's Lease is of a time to come, and it is not renewed": {
			func(s *Installation) { s.CaptureLease.Value = lease("worker-1_a", now.Add(3*time.Minute)) },
			[]string{"leader: error: lease/nodekeep-capture: nobody leads: worker-1_a, whose clock was ahead, does not renew it" + unled},
		},
		"the leader has left and nobody takes over": {
			func(s *Installation) { s.CaptureLease.Value = lease("", now.Add(-time.Second)) },
			[]string{"leader: error: lease/nodekeep-capture: nobody leads, and nobody takes over" + unled},
		},
		"a Lease that says nothing": {
			func(s *Installation) {
				s.CaptureLease.Value.Lease.Spec.RenewTime, s.CaptureLease.Value.Lease.Spec.LeaseDurationSeconds = nil, nil
			},
			[]string{"leader: error: lease/nodekeep-capture: nobody leads, and nobody takes over" + unled},
		},
		"no capture has ever led": {
			func(s *Installation) { s.CaptureLease = Absent[Leadership]() },
			[]string{"leader: error: lease/nodekeep-capture: no capture has ever led" + unled},
		},
		"capture needs no election": {
			func(s *Installation) {
				s.CaptureLease = Absent[Leadership]()
				s.arg(captureObject, "--leader-elect=false")
			}, nil,
		},
		"the namespace is not there": {
			func(s *Installation) { s.NamespaceObject = Absent[*corev1.Namespace]() },
			[]string{"installation: error: namespace/nodekeep-system: it does not exist, so no process of nodekeep runs in it, and it has no records"},
		},
		"the namespace is about to go": {
			func(s *Installation) { s.NamespaceObject.Value.DeletionTimestamp = &metav1.Time{Time: now} },
			[]string{"installation: error: namespace/nodekeep-system: it is being deleted, and with it all records"},
		},
	})
}
