// Package monitoring tests what operators watch nodekeep by: the alerts and the dashboard of manifests/chart/monitoring, as they are
// shipped.
//
//   - promtool checks the alerts and runs their unit tests, alerts_test.yaml; every alert has a scenario in which it fires, and one
//     with its series in it in which it does not.
//   - Every expression, of panels too, is taken apart by Prometheus' own parser (module test/programs/promql), and every series, every label and
//     every value of a label that it names must be served by a process that runs: by webhook or capture, or, for the few series
//     that are declared as the API server's, by kube-apiserver.
//   - The objects that the chart makes of them are accepted by a real API server with the Prometheus operator's CRDs, and the rules
//     in them are those of the file. testdata/crds holds those CRDs as the module github.com/prometheus-operator/prometheus-operator
//     v0.85.0 publishes them.
//
// `make promtool` builds what this needs.
package monitoring
