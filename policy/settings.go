package policy

import (
	"strings"
	"time"
)

// Setting is one that has a single value, by its path in the policy file.
type Setting struct {
	Field string
	Value string
}

// Settings are those of the policy, always the same ones in the same order, for people who compare two policies. What its
// patterns and rules come to shows on Nodes only.
func (p Policy) Settings() []Setting {
	return []Setting{
		{"labels.onConflict", string(p.onConflict)},
		{"labels.protected", string(p.protected)},
		{"machine.onMismatch", string(p.onMismatch)},
		{"retention", written(p.retention)},
	}
}

// written is a retention as people write it.
func written(retention time.Duration) string {
	if retention == 0 {
		return "0 (for ever)"
	}
	text := retention.String() // 720h0m0s
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
