package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMissingRightsAreGrantedByTheShippedRolesAsFarAsTheseHaveThem(t *testing.T) {
	const release = DefaultNamespace
	list := access{verb: "list", resource: "nodes"}
	read := access{verb: "get", resource: "configmaps", namespace: release, name: "node.a"}
	write := access{verb: "patch", resource: "configmaps", namespace: release, name: "node.a"}
	elsewhere := access{verb: "list", resource: "pods", namespace: "gpu-operator"}
	everywhere := access{verb: "list", resource: "pods"}
	secret := access{verb: "get", resource: "secrets", namespace: release}
	const (
		viewer   = "kubectl create clusterrolebinding nodekeep-viewer-eve --clusterrole=nodekeep-viewer --user=eve"
		viewerIn = "kubectl create rolebinding nodekeep-viewer-eve --clusterrole=nodekeep-viewer-namespaced --user=eve -n nodekeep-system"
	)
	for name, c := range map[string]struct {
		missing []access
		want    []string
	}{
		"what a viewer may":                {[]access{list, read, list}, []string{viewer, viewerIn}},
		"one part of what an operator may": {[]access{read}, []string{viewerIn}},
		"all of what an operator may, alone": {[]access{list, read, write}, []string{
			"kubectl create clusterrolebinding nodekeep-operator-eve --clusterrole=nodekeep-operator --user=eve",
			"kubectl create rolebinding nodekeep-operator-eve --clusterrole=nodekeep-operator-namespaced --user=eve -n nodekeep-system",
		}},
		"in a namespace that is none of nodekeep's, the right alone": {[]access{elsewhere}, []string{
			"kubectl create role nodekeep-list-pods --verb=list --resource=pods -n gpu-operator",
			"kubectl create rolebinding nodekeep-list-pods-eve --role=nodekeep-list-pods --user=eve -n gpu-operator",
		}},
		"in the whole cluster, nothing of the role for a namespace": {[]access{everywhere}, []string{
			"kubectl create clusterrole nodekeep-list-pods --verb=list --resource=pods",
			"kubectl create clusterrolebinding nodekeep-list-pods-eve --clusterrole=nodekeep-list-pods --user=eve",
		}},
		"much that no shipped role has": {[]access{secret, secret, secret, secret}, nil},
	} {
		assert.Equal(t, c.want, grantTo("eve", release, c.missing...).Commands, name)
	}
	assert.Contains(t, grantTo("it's me", release, list).Commands[0], `nodekeep-viewer-it-s-me --clusterrole=nodekeep-viewer --user='it'\''s me'`)
	assert.Contains(t, grantTo("system:serviceaccount:a:b", release, list).Commands[0], "nodekeep-viewer-system-serviceaccount-a-b --clusterrole=nodekeep-viewer --user=system:serviceaccount:a:b")
}
