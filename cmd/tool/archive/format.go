package archive

import (
	"encoding/json"

	"nodekeep.dev/nodekeep/store"
)

// What the head says.
const (
	APIVersion = "nodekeep.dev/v1alpha1"
	Kind       = "RecordExport"
)

type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// document is any object behind the head: a record, or the end.
type document struct {
	Record      json.RawMessage `json:"record,omitempty"`
	Quarantined json.RawMessage `json:"quarantined,omitempty"` // what was remembered before another machine took the name
	Accepted    store.Side      `json:"accepted,omitempty"`    // the side that a person has accepted
	End         *end            `json:"end,omitempty"`
}

type end struct {
	Records int `json:"records"`
}
