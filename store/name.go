package store

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	namePrefix   = "node."
	nameHashSize = 8 // bytes of sha256, 16 hex digits
)

// Name returns the name of the ConfigMap that holds the record of a Node: "node." and the Node's name. A name has at most 253 characters. If the
// result would be longer, a hash of the whole name replaces the end. A Node's name is a DNS-1123 subdomain, and so is the result.
//
// Two names share a ConfigMap only if their hashes collide, or if a client chose a name with another's hash. The record names its Node, so
// it is refused even then.
func Name(node string) string {
	name := namePrefix + node
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(node))
	suffix := "." + hex.EncodeToString(sum[:nameHashSize])
	prefix := name[:validation.DNS1123SubdomainMaxLength-len(suffix)]
	return strings.TrimRight(prefix, ".-") + suffix
}

// Shortened reports whether a Node's name is too long to stand whole in that of its record's ConfigMap.
func Shortened(node string) bool {
	return len(namePrefix)+len(node) > validation.DNS1123SubdomainMaxLength
}

// IsName reports whether a ConfigMap is named as a record.
func IsName(configMap string) bool { return strings.HasPrefix(configMap, namePrefix) }
