// Package removal shows on a real control plane, with the CustomResourceDefinitions of Karpenter and Cluster API and as the ServiceAccount nodekeep-verify,
// that a Node is removed by the configured kind, and that no other object ever is.
package removal
