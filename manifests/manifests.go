// Package manifests holds what the chart renders with its default values, for processes that compare it with what a cluster has.
package manifests

import _ "embed" // the rendered file

// Nodekeep is nodekeep.yaml: one object a document.
//
//go:embed nodekeep.yaml
var Nodekeep string
