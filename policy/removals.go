package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// removalWarnings are about profiles that remove Nodes, and may remove none, or may leave an unwanted machine.
func (p Policy) removalWarnings() (warnings []string) {
	var removing []string
	for _, profile := range p.verify.All() {
		if profile.OnFailure == verify.KeepNode {
			continue
		}
		removing = append(removing, profile.Name)
		for _, warning := range profileWarnings(profile) {
			warnings = append(warnings, "verify.profiles: "+profile.Name+" "+warning)
		}
	}
	limits := p.verify.Limits
	for _, limit := range [][2]string{
		{"stopAbove", limits.StopAbove.String()}, {"deletionsPerHour", strconv.Itoa(limits.DeletionsPerHour)},
	} {
		if len(removing) > 0 && strings.TrimSuffix(limit[1], "%") == "0" {
			warnings = append(warnings, fmt.Sprintf("verify.limits.%s is %s: no Node is removed, although profiles have onFailure: %s", limit[0], limit[1], strings.Join(removing, ", ")))
		}
	}
	return warnings
}

func profileWarnings(profile verify.CompiledProfile) (warnings []string) {
	switch takes := leastUntilRemoved(profile); {
	case profile.OnTimeout == verify.Release && takes >= profile.Deadline:
		warnings = append(warnings, fmt.Sprintf("removes no Node: onTimeout is release, and %d failed attempts take %s at least, which is not before the deadline, %s",
			profile.MaxAttempts, verify.WrittenDuration(takes), verify.WrittenDuration(profile.Deadline)))
	case profile.OnTimeout == verify.Release:
		warnings = append(warnings, "removes Nodes that fail, and onTimeout is release: a Node whose removal is held takes workloads at the deadline")
	}
	if profile.OnFailure != verify.RemoveNode {
		return warnings
	}
	_, keys := keysOf(profile.Selector)
	inDomain := func(domain string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return isOrUnder(domainOf(key), domain) })
	}
	_, startup := startupTaints().match(profile.Taint.Key)
	switch {
	case inDomain("karpenter.sh"):
		warnings = append(warnings, "selects Nodes of Karpenter, and onFailure is node; nodeClaim removes the machine, too")
	case inDomain("cluster.x-k8s.io"):
		warnings = append(warnings, "selects Nodes of Cluster API, and onFailure is node; machine removes the machine, too")
	case startup:
		warnings = append(warnings, "has a taint of cluster-autoscaler, and onFailure is node: the machine stays until cluster-autoscaler removes it as one without a Node "+
			"(--max-node-provision-time, 15m), and counts until then")
	}
	return warnings
}

// leastUntilRemoved returns the sum of the pauses between the attempts that must fail before a Node is removed.
func leastUntilRemoved(profile verify.CompiledProfile) (sum time.Duration) {
	for attempt := 1; attempt < profile.MaxAttempts; attempt++ {
		sum += verify.Backoff(profile, attempt)
	}
	return sum
}
