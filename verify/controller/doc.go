// Package controller carries out what package verify plans: Node and Pod events -> observe -> [verify.Plan] -> one write. The whole flow is in
// reconcile.go, from top to bottom; docs/design.md has the design.
//
// It watches all Nodes, and the Pods of the namespace of worker Pods. Memory holds only Nodes with work to do in full. Pods of DaemonSets and
// Services are looked up live, for Nodes that are about to start a worker Pod. An informer of the Pods of kube-system would hold a million of them in
// a cluster of 100,000 Nodes. It would need the right to read them all.
//
// Invariants:
//   - Every write of a Node is optimistic: it carries the uid and the resourceVersion that the plan was made for.
//   - Only the leader writes. What it starts is bounded by the worker Pods that exist in the API, whatever their creator.
//   - The state is in the API: taint, Pods, annotation. A process that is killed between any two writes loses nothing that another one needs.
//   - The result of a control Pod is the Pod itself, which is kept for two minutes. This process's own memory of control paces only its Event.
//   - Pods that kubelets can create (mirror Pods) never count as worker Pods.
//   - It writes only Nodes, worker Pods, Events and the ConfigMaps of reports. If a profile asks for removal, it also writes what removes Nodes
//     (package remove).
//   - A removal is in the ledger before it is made. If something cannot be read, the removal is held. A brake never keeps an attempt from being made
//     or recorded.
//   - No single object stops the process. A panic in the work on one is logged and counted, and the Node is retried.
package controller
