// Package monitoring tests how operators watch nodekeep: the alerts and the dashboard of manifests/chart/monitoring, as they are shipped.
//
//   - promtool checks the alerts and runs their unit tests, alerts_test.yaml. Every alert has a scenario in which it fires, and one with its series
//     in which it does not.
//   - Prometheus' own parser (module test/programs/promql) parses every expression, also those of panels. A running process must serve each series,
//     label and value of a label that an expression names. That process is the webhook or capture, or kube-apiserver for the few series declared as
//     its own.
//   - A real API server with the Prometheus operator's CRDs accepts the objects that the chart makes of them. Their rules are those of the file.
//   - Each alert that names commands has a situation: a real control plane with the alert's cause. Each command is typed there as an operator
//     types it, and must show what the alert is about. The table is in situations_test.go, and what makes
//     the states in states_test.go.
//
// testdata/crds holds these CRDs, as the module github.com/prometheus-operator/prometheus-operator v0.85.0 publishes them.
//
// `make promtool` builds what this needs.
package monitoring
