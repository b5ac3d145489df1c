package policy

import (
	"strconv"
	"strings"
	"time"
)

// Setting is one that has a single value, by its path in the policy file.
type Setting struct {
	Field string
	Value string
}

// Settings are those of the policy, always the same ones in the same order, for operators who compare two policies. The effect of its
// patterns and rules shows on Nodes only.
func (p Policy) Settings() []Setting {
	return []Setting{
		{"labels.onConflict", string(p.onConflict)},
		{"labels.protected", string(p.protected)},
		{"labels.migrations", p.writtenMigrations()},
		{"cordon", string(p.cordon)},
		{"machine.onMismatch", string(p.onMismatch)},
		{"machine.follow", strconv.FormatBool(p.follow)},
		{"verify.label", p.verify.Label},
		{"verify.start.perSecond", strconv.Itoa(p.verify.Start.PerSecond)},
		{"verify.start.inFlight", strconv.Itoa(p.verify.Start.InFlight)},
		{"verify.limits.stopAbove", p.verify.Limits.StopAbove.String()},
		{"verify.limits.deletionsPerHour", strconv.Itoa(p.verify.Limits.DeletionsPerHour)},
		{"verify.limits.orPercent", strconv.Itoa(p.verify.Limits.OrPercent)},
		{"verify.limits.cooldown", writtenDuration(p.verify.Limits.Cooldown)},
		{"verify.profiles", p.writtenProfiles()},
		{"retention", written(p.retention)},
		{"governance.keys", p.writtenGovernance()},
		{"governance.noncompliant.taint", p.governance.Settings().Noncompliant.Taint},
		{"governance.noncompliant.after", p.governance.Settings().Noncompliant.After},
		{"accept", p.accept},
	}
}

// written is a retention as a policy file has it.
func written(retention time.Duration) string {
	if retention == 0 {
		return "0 (for ever)"
	}
	return writtenDuration(retention)
}

// writtenDuration leaves out the units that are 0 at the end.
func writtenDuration(duration time.Duration) string {
	text := duration.String() // 720h0m0s
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
