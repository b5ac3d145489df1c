package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// FuzzText holds Text to what JSON makes of a string, which is how the API server shows it to readers of JSON.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\xff", "\xff\xfe\xff", "\xc3\x28", "a\x00b", "\xed\xa0\x80", "\xf0\x9f\x92", "\ufffd", "ünï"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		body, err := json.Marshal(s)
		require.NoError(t, err)
		var want string
		require.NoError(t, json.Unmarshal(body, &want))
		assert.Equal(t, want, Text(s))
		short := Shortened(s, 5)
		assert.LessOrEqual(t, len(short), 5)
		assert.True(t, utf8.ValidString(short))
		assert.True(t, strings.HasPrefix(want, short))
		assert.True(t, len(want) > 5 || short == want)
	})
}

func TestAMapOfTextsIsTheSameMapWhereAllIsUTF8(t *testing.T) {
	valid := map[string]string{"a": "1"}
	TextMap(valid)["b"] = "2"
	assert.Contains(t, valid, "b")
	assert.Nil(t, TextMap(nil))

	invalid := map[string]string{"a": "\xff", "b\xfe": "1", "b\xff": "2"}
	assert.Equal(t, map[string]string{"a": "\ufffd", "b\ufffd": "2"}, TextMap(invalid))
	assert.Equal(t, "\xff", invalid["a"], "the caller's own is not changed")
}

func TestALabelThatLooksLikeATaintIsNoItem(t *testing.T) {
	labels := map[string]string{"a": "1", "b:NoSchedule": "2"}
	assert.Equal(t, map[string]string{"a": "1"}, record.Join(labels, nil))
	assert.Equal(t, map[string]string{"a": "1", "b:NoSchedule": "taint"}, record.Join(labels, []corev1.Taint{{Key: "b", Value: "taint", Effect: "NoSchedule"}}))
	assert.Len(t, labels, 2, "the caller's own is not changed")
}

func TestAMachineThatIsTooLongIsUnknown(t *testing.T) {
	busiest := strings.Repeat("m", maxMachineText)
	assert.Equal(t, record.Machine{ProviderID: busiest, SystemUUID: "s"}, MachineOf(busiest, "s", busiest+"m"))
	assert.Equal(t, record.Machine{ProviderID: "a\ufffd", SystemUUID: "s\x00"}, MachineOf("a\xff", "s\x00", strings.Repeat("\xff", maxMachineText)))
}
