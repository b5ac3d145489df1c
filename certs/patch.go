package certs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
)

// bundlePatch returns the JSON patch that sets the bundle want in every webhook entry of a configuration. It is nil if all have it. The
// parameter have has the bundles of the entries in their order. The patch touches no other field. An update would drop fields that this
// program's version of the API does not know. The patch sets the resourceVersion. So the API server answers with a conflict if the
// configuration has changed since it was read.
func bundlePatch(resourceVersion string, bundles [][]byte, want []byte) ([]byte, error) {
	patch := []jsonpatch.Operation{jsonpatch.NewOperation("replace", "/metadata/resourceVersion", resourceVersion)}
	for i, bundle := range bundles {
		if !bytes.Equal(bundle, want) {
			// "add" also replaces; JSON has a []byte as base64, which is what the field wants.
			patch = append(patch, jsonpatch.NewOperation("add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), want))
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
