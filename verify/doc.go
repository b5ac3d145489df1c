// Package verify decides whether a Node may take workloads. Its input is the section verify of the policy and the observed state of a Node. Its
// output is the next step. The design is in docs/design.md.
//
// [Compile] checks the section. [Check] is one question that a worker Pod on the Node asks; package check asks it. Each of its [Kinds] has a
// file. [Report] is what the worker
// reports. [Plan] decides the next step for one Node, and [Judge] the result of a worker Pod. [Action.Decide] decides whether a Node is removed, and
// [Starts] which Node gets its worker Pod next. The package is pure: values in, values out; verify/controller acts.
//
// Invariants:
//   - Only the taint decides. A label, a condition or an annotation never makes a Node count as checked: a kubelet can forge those.
//   - A Node is opened only by a worker Pod that passed, of this Node object, this round and these checks. The Pod's name, which nobody can change,
//     encodes all of this. Only a profile without checks opens its Nodes without a Pod. A round ends when the Node is opened; if the taint is added again, the next round begins.
//   - A failure that a verified Node has, too ([Control]), counts no attempt. Control never opens a Node and never fails one.
//   - A Node is removed ([Action.Decide]) only for a check that failed on it and that verified Nodes pass. It must be in its first round, and the
//     removal within the budget of the [Ledger]. Brakes hold removals and nothing else.
//   - The annotation paces its Node and may hold or hasten its removal within the budget. It does nothing else, because a kubelet may write it.
//     Attempts are never closer than backoff, whatever the annotation says.
//   - Every write is planned from what was observed and applies to nothing else. So it may be late, repeated, or made by two processes.
//   - A worker's report is untrusted. It is bounded, read strictly, and can make its own Node pass or fail, nothing else.
package verify
