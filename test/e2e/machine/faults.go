package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// faultsFile is the path of the file that shows what is broken. The test writes it, as a whole, while the runtime runs.
type faultsFile string

// faults is what is broken.
type faults struct {
	// Lost are addresses, or ranges of them. What pods that start from now on send there is lost on its way.
	Lost []string `json:"lost,omitempty"`
	// NoImage is an image that is not there, and cannot be pulled.
	NoImage bool `json:"noImage,omitempty"`

	lost []netip.Prefix
}

// read reads the file. Without one, nothing is broken.
func (f faultsFile) read() (broken faults, err error) {
	content, err := os.ReadFile(string(f))
	if f == "" || errors.Is(err, fs.ErrNotExist) {
		return faults{}, nil
	}
	if err != nil {
		return faults{}, fmt.Errorf("read faults: %w", err)
	}
	if err := json.Unmarshal(content, &broken); err != nil {
		return faults{}, fmt.Errorf("decode %s: %w", string(f), err)
	}
	for _, text := range broken.Lost {
		prefix, err := parsePrefix(text)
		if err != nil {
			return faults{}, fmt.Errorf("decode %s: %w", string(f), err)
		}
		broken.lost = append(broken.lost, prefix)
	}
	return broken, nil
}

// writeFile writes a file and makes its folder. Anybody may read it, since programs in pods are anybody.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
