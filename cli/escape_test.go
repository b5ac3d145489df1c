package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestTextForATerminalIsPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n":            "a\tb\n",
		"\x1b[2J\r\x07":     `\x1b[2J\x0d\x07`,
		"\u009b31m\u202e€ü": `\x9b31m\u202e€ü`,
		"\xff":              "\ufffd",
	} {
		var out bytes.Buffer
		n, err := EscapeTerminal(genericiooptions.IOStreams{Out: &out}).Out.Write([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, len(text), n)
		assert.Equal(t, want, out.String())
	}
	assert.Equal(t, `a\x0ab`, escapeUnprintable("a\nb", ""))
}
