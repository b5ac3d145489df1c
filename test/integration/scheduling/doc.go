// Package scheduling holds the tests of nodekeep against a real kube-scheduler: no pod is bound to a Node before that Node
// carries what it should carry.
//
// Nothing here runs pods: there is no kubelet behind a Node, so a bound pod is only evidence. No controller manager runs
// either, so Nodes keep the taint node.kubernetes.io/not-ready, which the pods of these tests tolerate.
package scheduling
