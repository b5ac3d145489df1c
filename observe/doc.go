// Package observe turns a Node object, as a process read it from the API server, into a [record.Observation]. It is pure. Capture and
// the webhook's DELETE handler observe with the same functions, so they cannot disagree.
//
// Invariants:
//   - All of a Node but its uid, its resourceVersion and what admission guards is the word of its kubelet. None of it panics, none of it
//     takes unbounded memory, and readers of JSON and of protobuf see the same.
//   - While the guard policies are in force, no kubelet can write nodekeep's annotations, so these are evidence. While they are not, an
//     annotation that a client seems to have written is ignored, and the others prove nothing of labels and taints which a
//     kubelet may not set itself.
//   - [Slim] loses nothing that anything is decided by.
package observe
