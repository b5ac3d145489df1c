// Package controller carries out what package verify plans: Node and Pod events -> observe -> [verify.Plan] -> one write. reconcile.go is the
// whole flow, from top to bottom; docs/design.md has the design.
//
// What is watched: all Nodes, of which memory holds only those with work to do in full, and the Pods of the namespace of worker Pods. Pods of DaemonSets and
// Services are looked up live, for Nodes that are about to start a worker Pod: an informer of the Pods of kube-system would hold a million of them in a
// cluster of 100,000 Nodes, and needs the right to read them all.
//
// Invariants:
//   - Every write of a Node is optimistic: it carries the uid and the resourceVersion that the plan was made for.
//   - Only the leader writes. What it starts is bounded by the worker Pods that exist in the API, whatever their creator.
//   - The state is in the API: taint, Pods, annotation. A process that is killed between any two writes loses nothing that another one needs.
//   - The result of a control Pod is the Pod itself, which is kept for two minutes; what this process remembers of control paces nothing but its Event.
//   - Pods that kubelets can create (mirror Pods) never count as worker Pods.
//   - Nothing is written but Nodes, worker Pods, Events and the ConfigMaps of reports, and what removes Nodes (package remove), where a profile asks for it.
//   - A removal is in the ledger before it is made. What cannot be read holds it. A brake never keeps an attempt from being made or recorded.
//   - No single object stops the process: a panic in the work on one is logged and counted, and the Node is tried again.
package controller
