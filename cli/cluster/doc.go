// Package cluster is the connection of the operator's commands to a cluster: what they read through it, and what the caller may do there.
//
// Invariants:
//   - It only reads. Commands write, by [Cluster.Client] and [Cluster.Records]. Asking the API server for rights of the caller stores nothing.
//   - Every call is made with the caller's own rights. An error of a call that was denied is a [DeniedError]: it names the missing right, and how to
//     get it.
//   - Lists are read page by page, however many Nodes and records there are, and an interrupted list never looks complete.
//   - Nothing is printed: what a caller could not read is an error, and commands decide which errors end them.
//   - Nothing is decided: what was read is judged by packages nodestate, impact and doctor beside this one.
package cluster
