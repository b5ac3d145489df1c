// Package scheduling tests nodekeep against a real kube-scheduler. No pod may be bound to a Node before that Node has its labels and taints.
//
// Nothing here runs pods: there is no kubelet behind a Node, so a bound pod is only evidence. No controller manager runs, so Nodes keep the taint
// node.kubernetes.io/not-ready. The pods of these tests tolerate it.
package scheduling
