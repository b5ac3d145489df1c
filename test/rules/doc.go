// Package rules holds labels.rules against a model on a real control plane: Nodes of six kinds register, restart, lose and gain devices
// and are relabelled, while the policy changes. After each step every Node carries exactly what the model says.
//
// The script covers:
//   - capacity, names, labels, and devices of ResourceSlices, also while slices are missing;
//   - kubelets that restart, or report CPU 0;
//   - other machines of a name, and systems that are installed again;
//   - holds of the policy, and their ends, for labels that rules set or keep off;
//   - rules in audit, and a client that fights with a rule of precedence: rule.
//
// Package test/random says which environment variables change a run of 60 Nodes and 6 policies.
//
// Invariants:
//   - The model shares no code with the product: no file here imports classify, record, policy, observe, store, webhook or capture.
//   - A label of a rule changes once in a step, or twice if its hold ended in that step. In a fight, each correction may change it once more.
//     What the script itself wrote does not count, nor the CREATE of another machine.
//   - A watcher never sees a Node without the gate that lacks a taint which its labels ask for. Nor does it lack a taint that the Node has
//     before and after the step.
//   - Once a Node is as the model says, nobody writes it.
package rules
