// Package impact decides what a policy means for the cluster that is there. It compares two policies, field by field and Node by Node: what each keeps
// and restores, which labels rules change, which rules of governance Nodes break. It decides which labels of operators a rule takes over, and how far
// the renaming of a label is. It finds facts that rules ask for and no Node has, what keeps Nodes from passing checks, and which Nodes the end of an
// emergency concerns.
//
// It is pure: commands and doctor read the cluster. What is about one Node it asks package [nodekeep.dev/nodekeep/cli/nodestate].
package impact
