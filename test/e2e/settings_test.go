//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"nodekeep.dev/nodekeep/test/harness"
)

// The names of what the suite makes.
const (
	namespace = "nodekeep-e2e"
	release   = "nodekeep"
	// domain is that of the labels and taints that its Nodes get; nodekeep.dev is nodekeep's own, and not kept.
	domain = "nodekeep-e2e.example.com/"
	// mark is a label of everything, with the run as its value.
	mark = domain + "run"
)

// settings are what the environment says.
type settings struct {
	image, tag, pullPolicy string
	helmArgs               []string
	helm                   string
	replace                string
}

func readSettings() (settings, error) {
	s := settings{
		pullPolicy: cmp.Or(os.Getenv("NODEKEEP_E2E_PULL_POLICY"), "IfNotPresent"),
		helmArgs:   strings.Fields(os.Getenv("NODEKEEP_E2E_HELM_ARGS")),
		helm:       os.Getenv("NODEKEEP_E2E_HELM"),
		replace:    os.Getenv("NODEKEEP_E2E_REPLACE"),
	}
	if image := os.Getenv("NODEKEEP_E2E_IMAGE"); image != "" {
		var ok bool
		// The last colon: a registry may have a port.
		if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
			s.image, s.tag, ok = image[:i], image[i+1:], true
		}
		if !ok || strings.Contains(image, "@") {
			return s, fmt.Errorf("read NODEKEEP_E2E_IMAGE: %q is not repository:tag", image)
		}
	}
	if s.helm == "" {
		var err error
		if s.helm, err = harness.Helm(); err != nil {
			return s, err
		}
	}
	return s, nil
}
