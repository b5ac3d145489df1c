// Package verify decides whether a Node may take workloads: the section verify of the policy, what is known of a Node, and what is to be
// done next. docs/design.md has the design.
//
// [Compile] checks the section. [Check] is one question that a worker Pod on the Node asks; package check asks it. [Report] is what the worker
// tells. [Plan] says what is to be done next about one Node, [Judge] what came of a worker Pod, [Action.Decide] whether a Node is removed, [Starts] which Node gets its worker Pod next. The
// package is pure: values in, values out; verify/controller acts.
//
// Invariants:
//   - Only the taint decides. A label, a condition or an annotation never makes a Node count as checked: a kubelet can forge those.
//   - A Node is opened only by a worker Pod that passed, of this Node object, this round and these checks. The Pod's name, which nobody can change,
//     says all of this. A round ends when the Node is opened; the taint added again begins the next one.
//   - A failure that a verified Node has, too ([Control]), counts no attempt. Control never opens a Node and never fails one.
//   - A Node is removed ([Action.Decide]) only for a check that failed on it and that verified Nodes pass, in its first round, within the budget of the [Ledger].
//     Brakes hold removals and nothing else.
//   - The annotation paces its Node, may hold or hasten its removal within the budget, and does nothing else: a kubelet may write it. Attempts are never closer than backoff, whatever it says.
//   - Every write is planned from what was observed and applies to nothing else, so it may be late, repeated, or made by two processes.
//   - What a worker reports is untrusted: it is bounded, read strictly, and can make its own Node pass or fail, nothing else.
package verify
