package view

import (
	"time"

	"nodekeep.dev/nodekeep/policy"
)

// PolicyCheck is what is to be said of a policy file.
type PolicyCheck struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Mistakes policy.FileErrors `json:"mistakes,omitempty"`
	// ComparedWith names the policy in force, where there was a comparison.
	ComparedWith string  `json:"comparedWith,omitempty"`
	Impact       *Impact `json:"impact,omitempty"`
}

// Document is for people; mistakes are not part of it.
func (c PolicyCheck) Document(time.Time) Document {
	var d Document
	d.with("Policy", c.File+" is valid")
	d.with("Compared with", c.ComparedWith)
	if c.Impact != nil {
		c.Impact.document(&d)
	}
	return d
}
