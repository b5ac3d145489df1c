package doctor

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/cli/view"
)

// maxClockSkew is how far clocks may be apart: well below the shortest duration that nodekeep decides by.
const maxClockSkew = 10 * time.Second

// judgeAPIServer reports which API server it is; without it there is no report at all.
func judgeAPIServer(seen Installation) answer {
	var a answer
	if addUnknown(&a, "", seen.APIServer); seen.APIServer.Found {
		a.okText = "Kubernetes " + seen.APIServer.Value.Version
	}
	return a
}

// judgeClock compares the clocks of this machine and of the leader with the API server's.
func judgeClock(seen Installation) answer {
	a := answer{okText: fmt.Sprintf("this machine's and the leader's are within %s of the API server's", maxClockSkew)}
	addUnknown(&a, "", seen.APIServer)
	if skew := seen.APIServer.Value.ClockLag(); seen.APIServer.Found && skew.Abs() > maxClockSkew {
		a.add(Warning, "", newRemedy("Set it: the API server's date is "+seen.APIServer.Value.Date.UTC().Format(time.RFC3339)+"."),
			"this machine's clock is %s the API server's: ages are shown wrong here", direction(skew))
	}
	addUnknown(&a, leaseObject, seen.CaptureLease)
	if leader := seen.CaptureLease.Value; seen.CaptureLease.Found && leader.Renewed && leader.Lease.Spec.RenewTime != nil {
		if skew := leader.Observed.Sub(leader.Lease.Spec.RenewTime.Time); skew < -maxClockSkew || skew > leader.leaseDuration() {
			a.add(Warning, leaseObject, newRemedy("Set the clock of the host that its pod runs on."),
				"the clock of the leader, %s, is %s the API server's: it writes down when Nodes went, by which records are collected",
				leader.holder(), direction(skew))
		}
	}
	return a
}

// ClockLag returns how far this machine's clock is certain to be behind the API server's. It is negative if the clock is ahead. The exact difference is not
// known: a date has whole seconds, and the answer took its time.
func (a APIServer) ClockLag() time.Duration {
	switch earliest, latest := a.Date.Sub(a.Answered), a.Date.Add(time.Second).Sub(a.Asked); {
	case earliest > 0:
		return earliest
	case latest < 0:
		return latest
	default:
		return 0
	}
}

func direction(behind time.Duration) string {
	if behind < 0 {
		return duration.HumanDuration(-behind) + " ahead of"
	}
	return duration.HumanDuration(behind) + " behind"
}

// judgeInstallation judges whether anything is installed in the namespace at all, and whether its records last.
func judgeInstallation(seen Installation) answer {
	a := answer{okText: "in namespace " + seen.Namespace}
	object := "namespace/" + seen.Namespace
	if seen.nothingInstalled() {
		message := "nodekeep is not installed"
		if kept := seen.Records.Value.All; kept > 0 {
			message += fmt.Sprintf(". Namespace %s still has %s, which a new installation uses", seen.Namespace, view.Counted(kept, "record"))
		}
		a.add(Error, "", seen.installRemedy(), "%s", message)
		return a
	}
	if otherNamespace := seen.otherNamespace(); otherNamespace != "" {
		a.add(Error, "", newRemedy("Run the command again with --namespace "+otherNamespace+"."),
			"nodekeep is installed in namespace %s, and not in %s", otherNamespace, seen.Namespace)
		return a
	}
	addUnknown(&a, object, seen.NamespaceObject)
	switch {
	case seen.NamespaceObject.Absent:
		a.add(Error, object, newRemedy("If nodekeep is installed in another namespace, name it by --namespace. To see which:", "kubectl get deployments --all-namespaces -l "+PodSelector),
			"it does not exist, so no process of nodekeep runs in it, and it has no records")
	case seen.NamespaceObject.Found && seen.NamespaceObject.Value.DeletionTimestamp != nil:
		a.add(Error, object,
			newRemedy("What is lost cannot be stopped any more. What live Nodes show is recorded again once nodekeep is installed again."),
			"it is being deleted, and with it all records")
	}
	return a
}
