package certs

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestServingNames(t *testing.T) {
	service := []string{"web.ns.svc", "web.ns.svc.cluster.local", "web.ns"}
	tests := map[string]struct {
		extra []string
		want  []string
	}{
		"the Service alone":                    {want: service},
		"an extra name and an address follow":  {extra: []string{"localhost", "127.0.0.1"}, want: append(service[:3:3], "localhost", "127.0.0.1")},
		"names are lower case and trimmed":     {extra: []string{" LocalHost "}, want: append(service[:3:3], "localhost")},
		"addresses have one form":              {extra: []string{"0:0:0:0:0:0:0:1", "::ffff:10.0.0.1"}, want: append(service[:3:3], "::1", "10.0.0.1")},
		"nothing occurs twice, nothing empty":  {extra: []string{"web.ns.svc", "", " ", "::1", "0::1"}, want: append(service[:3:3], "::1")},
		"a name that no certificate can match": {extra: []string{"not a name"}, want: append(service[:3:3], "not a name")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, servingNames("web", "ns", tt.extra))
		})
	}
}

func TestUncovered(t *testing.T) {
	leaf := leafOf(t, authority(t, day, birth), birth, "localhost", "127.0.0.1", "::1").cert
	assert.Empty(t, uncovered(leaf, []string{"::1", "127.0.0.1", "localhost"}))
	assert.Equal(t, []string{"10.0.0.1", "example.com"}, uncovered(leaf, []string{"10.0.0.1", "localhost", "example.com"}))
}
