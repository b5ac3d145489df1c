package certs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBundlePatch(t *testing.T) {
	want := []byte("CA")
	tests := map[string]struct {
		current [][]byte
		want    string
	}{
		"no entries, no patch":              {},
		"all entries right, no patch":       {current: [][]byte{want, want}},
		"one entry empty, only that is set": {current: [][]byte{want, nil}, want: `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/webhooks/1/clientConfig/caBundle","value":"Q0E="}]`},
		"an entry with another bundle is replaced": {current: [][]byte{[]byte("old")},
			want: `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Q0E="}]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := bundlePatch("7", tt.current, want)
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got))
		})
	}
}
