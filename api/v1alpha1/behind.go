package v1alpha1

import "slices"

// Behind returns the Pods, of these, that have not read this generation of the NodePolicy. Only their own entries of readBy count: all others are
// ignored.
func (s NodePolicyStatus) Behind(generation int64, pods []string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(pods)), func(pod string) bool { return s.ReadBy[pod] == generation })
}
