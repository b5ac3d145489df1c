// Package cli holds the operator's commands: see, explain and undo what nodekeep has recorded. They are commands of the one binary. If the binary is
// called as kubectl-nodekeep, they are a plugin of kubectl.
//
// Most files here are one command each. A command acts: it reads the cluster, asks, prints and writes. It reads through package
// [nodekeep.dev/nodekeep/cli/cluster]. Its decisions come from packages [nodekeep.dev/nodekeep/cli/nodestate] and [nodekeep.dev/nodekeep/cli/impact], its
// output from [nodekeep.dev/nodekeep/cli/view]. All three are pure, and use the product's own pure functions, never a second implementation.
//
// For doctor, package [nodekeep.dev/nodekeep/cli/examine] reads an installation, and package [nodekeep.dev/nodekeep/cli/doctor] judges it.
//
// Invariants:
//   - Every call is made with the caller's own rights. Before it starts, a command checks the rights that it needs. It names all missing rights and
//     how to get them. Optional rights are not checked: the call itself reports them.
//   - stdout has the requested output and nothing else; every other message goes to stderr.
//   - The exit code shows the result, see [ExitCode]; every result other than the requested one has a message on stderr.
//   - No partial result is silent: an error after the first write names what was done and what was not.
//   - A command that changes something reads, plans, shows the plan, asks, and carries it out. It changes exactly the state that was read, see
//     [change]. No answer means no; --yes answers beforehand.
//   - A step that changes something is finished even after Ctrl-C, so that its result is known.
//   - Lists are read page by page, however many Nodes and records there are.
package cli
