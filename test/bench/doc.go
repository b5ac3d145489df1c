// Command bench measures nodekeep on a real control plane on loopback and prints tables for docs/benchmarks.md:
//
//	go run ./test/bench create   what a CREATE of a Node costs, compared with no webhook, one that does nothing and one with a constant patch
//	go run ./test/bench growth   what the handler and a CREATE cost with few and with many records
//	go run ./test/bench governance   what the admission policies of governance cost a heartbeat
//	go run ./test/bench guards   what the guard policies cost a heartbeat and a CREATE
//	go run ./test/bench scale    growth, memory, first capture, steady state, storm and start, on one population
//	go run ./test/bench compare  builds of nodekeep compared: API writes an event, failover, memory
//	go run ./test/bench capture  first capture compared with a bare loop of CREATEs, in turn
//	go run ./test/bench list     the operator's commands that read everything
//	go run ./test/bench steady   label changes on a population of their own, compared with the same changes with nobody to capture them
//	go run ./test/bench verify   what the controller of verification holds in memory, and what heartbeats cost it
//
// Invariants:
//   - What is compared is measured in turn, in one run, on one control plane; builds have one each, with their own manifests.
//   - No time fails a run. What must hold whatever the machine does: a label that is missing, a write where there should be
//     none, a record that does not come.
//   - Everything that is started is stopped, by process id, also after an error or Ctrl-C.
package main
