package policy

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// How long the record of a Node that is gone is kept.
const (
	defaultRetention = 720 * time.Hour
	// shortestRetention is longer than a machine takes to restart: less would forget Nodes that are coming back.
	shortestRetention = 10 * time.Minute
)

// Retention is how long the record of a Node that is gone is kept; 0 is for ever.
func (p Policy) Retention() time.Duration { return p.retention }

// readRetention reads the field; where it is absent the default holds.
func readRetention(raw json.RawMessage, path *field.Path, mistakes *field.ErrorList) time.Duration {
	if absent(raw) {
		return defaultRetention
	}
	retention, wrong := ParseRetention(asWritten(raw))
	if wrong != "" {
		*mistakes = append(*mistakes, field.Invalid(path, asWritten(raw), wrong))
		return defaultRetention
	}
	return retention
}

// ParseRetention reads how long a record is kept, as the policy file has it; or says what is wrong with it.
func ParseRetention(text string) (retention time.Duration, wrong string) {
	retention, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, "must be a duration in h, m and s, such as 720h, or 0 for ever"
	case retention < 0:
		return 0, "must not be negative; 0 keeps records for ever"
	case retention > 0 && retention < shortestRetention:
		return 0, "must not be shorter than 10m, or Nodes that only restart would be forgotten; 0 keeps records for ever"
	}
	return retention, ""
}
