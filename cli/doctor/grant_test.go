package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/manifests"
)

func TestMissingRightsAreGrantedByTheShippedRolesAsFarAsTheseHaveThem(t *testing.T) {
	const release = manifests.Namespace
	list := Right{Verb: "list", Resource: "nodes"}
	read := Right{Verb: "get", Resource: "configmaps", Namespace: release, Name: "node.a"}
	write := Right{Verb: "patch", Resource: "configmaps", Namespace: release, Name: "node.a"}
	rest := Right{Verb: "list", Resource: "pods", Namespace: "gpu-operator"}
	everywhere := Right{Verb: "list", Resource: "pods"}
	secret := Right{Verb: "get", Resource: "secrets", Namespace: release}
	const (
		viewer   = "kubectl create clusterrolebinding nodekeep-viewer-eve --clusterrole=nodekeep-viewer --user=eve"
		viewerIn = "kubectl create rolebinding nodekeep-viewer-eve --clusterrole=nodekeep-viewer-namespaced --user=eve -n nodekeep-system"
	)
	for name, c := range map[string]struct {
		missing []Right
		want    []string
	}{
		"what a viewer may":                {[]Right{list, read, list}, []string{viewer, viewerIn}},
		"one part of what an operator may": {[]Right{read}, []string{viewerIn}},
		"all of what an operator may, alone": {[]Right{list, read, write}, []string{
			"kubectl create clusterrolebinding nodekeep-operator-eve --clusterrole=nodekeep-operator --user=eve",
			"kubectl create rolebinding nodekeep-operator-eve --clusterrole=nodekeep-operator-namespaced --user=eve -n nodekeep-system",
		}},
		"in a namespace that is none of nodekeep's, the right alone": {[]Right{rest}, []string{
			"kubectl create role nodekeep-list-pods --verb=list --resource=pods -n gpu-operator",
			"kubectl create rolebinding nodekeep-list-pods-eve --role=nodekeep-list-pods --user=eve -n gpu-operator",
		}},
		"in the whole cluster, nothing of the role for a namespace": {[]Right{everywhere}, []string{
			"kubectl create clusterrole nodekeep-list-pods --verb=list --resource=pods",
			"kubectl create clusterrolebinding nodekeep-list-pods-eve --clusterrole=nodekeep-list-pods --user=eve",
		}},
		"much that no shipped role has": {[]Right{secret, secret, secret, secret}, nil},
	} {
		assert.Equal(t, c.want, GrantTo("eve", release, c.missing...).Commands, name)
	}
	assert.Contains(t, GrantTo("it's me", release, list).Commands[0], `nodekeep-viewer-it-s-me --clusterrole=nodekeep-viewer --user='it'\''s me'`)
	assert.Contains(t, GrantTo("system:serviceaccount:a:b", release, list).Commands[0], "nodekeep-viewer-system-serviceaccount-a-b --clusterrole=nodekeep-viewer --user=system:serviceaccount:a:b")
}
