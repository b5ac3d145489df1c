// Package manifests holds what the chart renders, for processes that compare it with what a cluster has.
package manifests

import _ "embed" // the rendered file

// Complete is complete.yaml: the objects that do nodekeep's work and their rights, with all options of the chart; one object a document.
//
//go:embed complete.yaml
var Complete string
