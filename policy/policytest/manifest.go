// Package policytest writes manifests of policies, for tests.
package policytest

import "strings"

// Head is the manifest of a policy that says nothing.
const Head = "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n"

// Manifest returns that of a policy with these sections, such as "labels: {ignore: [a]}".
func Manifest(sections string) string {
	if sections == "" {
		return Head
	}
	return Head + "  " + strings.ReplaceAll(strings.TrimSuffix(sections, "\n"), "\n", "\n  ") + "\n"
}
