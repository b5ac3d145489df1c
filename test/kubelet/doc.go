// Package kubelet is what tests need of kubelets: the Node that one sends when it starts.
package kubelet
