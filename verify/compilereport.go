package verify

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// reports checks what a profile with mode report must not have, and returns how often its Nodes are checked.
func (c *compiler) reports(profile *Profile, path *field.Path) time.Duration {
	forbid := func(wrong bool, name, reason string) {
		if wrong {
			c.errs = append(c.errs, field.Forbidden(path.Child(name), "mode is report: "+reason))
		}
	}
	forbid(profile.Taint != "", "taint", "the profile closes no Node, so it has no taint")
	forbid(profile.Deadline != "", "deadline", "no Node waits with a taint, so there is no deadline")
	forbid(profile.OnTimeout == Release, "onTimeout", "there is no taint to remove")
	forbid(profile.Reverify == OnReboot, "reverify", "a Node is checked after each reboot anyway")
	forbid(profile.OnFailure != "" && profile.OnFailure != KeepNode, "onFailure", "the Node takes workloads. Other tools can remove it by its condition")
	if profile.OnlyWaits() {
		c.required(path.Child("checks"), "mode is report: at least one check. What wait names is in the Node's conditions already")
	}
	return c.duration(&profile.Interval, "1h", time.Minute, 7*24*time.Hour, path.Child("every"))
}

// enforces checks what only a profile with mode report may have.
func (c *compiler) enforces(profile Profile, path *field.Path) {
	if profile.Interval != "" {
		c.errs = append(c.errs, field.Forbidden(path.Child("every"), "needs mode: report. A Node that takes workloads is not checked again by itself"))
	}
}
