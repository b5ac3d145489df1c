// Package rules holds labels.rules against a model on a real control plane: Nodes of six kinds register, restart, lose and gain devices
// and are relabelled, while the policy changes. After each step every Node carries exactly what the model says.
//
//	NODEKEEP_SEED    chooses the script; without it, each run has another one, and prints how to replay it
//	NODEKEEP_NODES   how many Nodes take part (60)
//	NODEKEEP_ROUNDS  how many policies they see (6)
//
// Invariants:
//   - The model shares no code with the product: no file here imports classify, record, policy, observe, store, webhook or capture.
//   - A label of a rule changes once in a step, or twice where a label that was held ended its time in it. What the script itself
//     wrote does not count.
//   - Of every state of a Node that anybody could watch: without the gate it has each taint that its labels ask for, and each that it
//     has before and after the step.
//   - Once a Node is as the model says, nobody writes it.
package rules
