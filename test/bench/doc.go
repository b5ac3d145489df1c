// Command bench measures nodekeep on a real control plane on loopback. README.md has its goals.
//
// Run `go run ./test/bench NAME`, where NAME is:
//   - create: what a CREATE costs, compared with no webhook, one that does nothing and one with a constant patch
//   - growth: what the handler and a CREATE cost with few and with many records
//   - governance: what the admission policies of governance cost a heartbeat
//   - guards: what the guard policies cost a heartbeat and a CREATE
//   - scale: growth, memory, first capture, steady state, storm and start, on one population
//   - compare: builds of nodekeep compared: API writes an event, failover, memory
//   - capture: first capture compared with a bare loop of CREATEs, in turn
//   - list: the operator's commands that read everything
//   - steady: label changes on a population of their own, compared with the same changes without capture
//   - verify: what the controller of verification holds in memory, and what heartbeats cost it
//
// Invariants:
//   - A comparison is measured in turn, in one run, on one control plane. Builds have one each, with their own manifests.
//   - No time fails a run. Only faults that no machine excuses do: a missing label, an unexpected write, or a missing record.
//   - Everything that is started is stopped, by process id, also after an error or Ctrl-C.
package main
