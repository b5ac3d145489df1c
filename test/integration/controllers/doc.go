// Package controllers runs the recipes of docs/platforms.md with the controllers that they are for: Karpenter with its kwok provider, and the controllers of
// Kueue that place workloads by topology. Both are built from Go modules of their own, in test/programs, and use the kinds of the same modules.
//
// Nothing here runs pods. The test plays the kubelets of Nodes: it says that they are ready, and that deleted pods have stopped.
package controllers
