package v1alpha1

import "slices"

// Behind returns the Pods, of these, that do not follow this generation of the NodePolicy. Only their own entries count: what else a status says of
// followers is ignored.
func (s NodePolicyStatus) Behind(generation int64, pods []string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(pods)), func(pod string) bool { return s.Followers[pod] == generation })
}
