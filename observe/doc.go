// Package observe turns a Node object, as a process read it from the API server, into a [record.Observation]. It is pure. Capture and the
// webhook's DELETE handler observe with the same functions, so they cannot disagree.
//
// Invariants:
//   - The kubelet controls all of a Node except its uid, its resourceVersion and what admission guards. Nothing of it makes this package
//     panic or take unbounded memory. Readers of JSON and of protobuf see the same.
//   - While the guard policies are in force, no kubelet can write nodekeep's annotations, so these are evidence.
//   - While the guard policies are not in force, an annotation that a client seems to have written is ignored. Other annotations prove
//     nothing about labels and taints that a kubelet may not set itself.
//   - [CompactNode] loses nothing that a decision uses.
package observe
