// Package cli holds the operator's commands: see, explain and undo what nodekeep remembers. They are commands of the one
// binary and, called as kubectl-nodekeep, a plugin of kubectl's.
//
// A command is a file here, which acts: it reads the cluster, asks, prints and writes. What it shows and decides comes from
// package [nodekeep.dev/nodekeep/cli/view], which is pure, and that from the product's own pure functions: never from
// a second implementation.
//
// Invariants:
//   - Every call is made with the caller's own rights. A command asks for all that it needs before it begins, and names all that are missing and
//     how to get them. What it can do without is asked for by the call itself.
//   - stdout carries what was asked for and nothing else; whatever else is to be said goes to stderr.
//   - The exit code shows what happened, see [ExitCode]; every end other than the one asked for has a message on stderr.
//   - Nothing is half done without saying so: an error after the first write names what was done and what was not.
//   - A command that changes something reads, plans, shows the plan, asks, and does it on exactly the state that was read, see [change].
//     No answer means no; --yes answers beforehand. remember, which capture does by itself anyway, does not ask.
//   - A step that changes something is finished also after Ctrl-C, so that it is known whether it was done.
//   - Lists are read page by page, however many Nodes and records there are.
package cli
