// Package manifests holds what the chart renders, and compares objects of a cluster with it.
package manifests

import _ "embed" // the rendered file, and a template of the chart

// Complete is complete.yaml, one object a document. It has the objects that do nodekeep's work and their rights, with all options of the chart.
//
//go:embed complete.yaml
var Complete string

// Governance is the template of the admission policies of policy.governance. Package governance executes it as Helm does.
//
//go:embed chart/templates/governance.yaml
var Governance string
