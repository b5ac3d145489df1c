// Package removal tests that a Node is removed by the configured kind, and that no other object ever is. It runs on a real control plane with the
// CustomResourceDefinitions of Karpenter and Cluster API. It uses the ServiceAccount nodekeep-verify.
package removal
