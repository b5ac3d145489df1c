package main

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// faultsFile is the path of the file that shows what is broken. The test writes it, as a whole, while the runtime runs.
type faultsFile string

// faults is what is broken.
type faults struct {
	// Lost are ranges of addresses. What pods that start from now on send there is lost on its way.
	Lost []netip.Prefix `json:"lost,omitempty"`
	// NoImage is an image that is not there, and cannot be pulled.
	NoImage bool `json:"noImage,omitempty"`
}

// read reads the file. Without one, nothing is broken.
func (f faultsFile) read() (broken faults, err error) {
	err = readJSON(string(f), &broken)
	if errors.Is(err, fs.ErrNotExist) {
		return faults{}, nil
	}
	return broken, err
}

// writeFile writes a file and makes its folder. Anybody may read it, since programs in pods are anybody.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
