package certs

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// bundlePatch returns the JSON patch that gives every webhook entry of a configuration the bundle want, or nil when all have it.
// have are the bundles of the entries in their order. It touches no other field, not even those that this program's version of
// the API does not know, which an update would drop. Setting the resourceVersion makes the API server answer with a conflict
// when the configuration has changed since it was read.
func bundlePatch(resourceVersion string, have [][]byte, want []byte) ([]byte, error) {
	patch := []operation{{"replace", "/metadata/resourceVersion", resourceVersion}}
	for i, bundle := range have {
		if !bytes.Equal(bundle, want) {
			// "add" also replaces; JSON has a []byte as base64, which is what the field wants.
			patch = append(patch, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), want})
		}
	}
	if len(patch) == 1 {
		return nil, nil
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return encoded, nil
}
