package webhook

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// No valid label holds a tilde, so no golden review can show that one is escaped.
func TestEscape(t *testing.T) {
	for key, token := range map[string]string{
		"dedicated":                      "dedicated",
		"node-role.kubernetes.io/worker": "node-role.kubernetes.io~1worker",
		"a~b":                            "a~0b",
		"a~1b":                           "a~01b",
		"a~/b":                           "a~0~1b",
		"":                               "",
	} {
		assert.Equal(t, token, escape(key))
	}
}

// The token must name the key to the library that the API server applies patches with.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"dedicated", "example.com/a", "a~b", "~1", "~0", "~/~", "", "a b", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		path, err := json.Marshal("/" + escape(key))
		require.NoError(t, err)
		patch, err := jsonpatch.DecodePatch([]byte(`[{"op":"add","path":` + string(path) + `,"value":"v"}]`))
		require.NoError(t, err)
		tail, err := patch.Apply([]byte(`{}`))
		require.NoError(t, err)
		want, err := json.Marshal(map[string]string{key: "v"})
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(tail))
	})
}
