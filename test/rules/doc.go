// Package rules holds labels.rules against a model on a real control plane: Nodes of six kinds register, restart, lose and gain devices
// and are relabelled, while the policy changes. After each step every Node carries exactly what the model says.
//
// What takes part: capacity, allocatable, names, labels, devices of ResourceSlices, also while slices are missing; kubelets that restart, or report
// CPU 0; other machines of a name, and systems that are installed again; holds that the policy file sets, and their ends, of labels that rules set
// and of those that they keep off; rules in audit; a client that fights with a rule of precedence: rule.
//
//	NODEKEEP_SEED    chooses the script; without it, each run has another one, and prints how to replay it
//	NODEKEEP_NODES   how many Nodes take part (60)
//	NODEKEEP_ROUNDS  how many policies they see (6)
//
// Invariants:
//   - The model shares no code with the product: no file here imports classify, record, policy, observe, store, webhook or capture.
//   - A label of a rule changes once in a step, or twice where a label that was held ended its time in it. In a fight, each correction may
//     change it once more. What the script itself wrote does not count, nor the CREATE of another machine.
//   - Of every state of a Node that anybody could watch: without the gate it has each taint that its labels ask for, and each that it
//     has before and after the step.
//   - Once a Node is as the model says, nobody writes it.
package rules
