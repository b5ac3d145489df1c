package local

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

// Faults are what is broken on a kubelet's machine. The zero value is nothing.
type Faults struct {
	// Lost are addresses, or ranges of them. What pods send there is lost on its way, from the next pod on.
	Lost []string `json:"lost,omitempty"`
	// NoImage is that the nodekeep image is not there.
	NoImage bool `json:"noImage,omitempty"`
}

// Break breaks these things and no others.
func (k *Kubelet) Break(faults Faults) error {
	content, err := json.Marshal(faults)
	if err != nil {
		return fmt.Errorf("encode faults of %s: %w", k.Name, err)
	}
	if err := replaceFile(k.faults(), content); err != nil {
		return fmt.Errorf("write faults of %s: %w", k.Name, err)
	}
	return nil
}

func (k *Kubelet) faults() string { return filepath.Join(k.folder, "faults.json") }
