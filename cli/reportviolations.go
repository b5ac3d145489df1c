package cli

import (
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/report"
)

// violations are those of a Node as a report counts them.
func violations(of []governance.Violation) (all []report.Violation) {
	for _, v := range of {
		all = append(all, report.Violation{Rule: v.Rule, Kind: string(v.Kind), Mode: string(v.Mode), Key: v.Key, Value: v.Value})
	}
	return all
}
