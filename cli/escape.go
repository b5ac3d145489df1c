package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// EscapeTerminal returns streams for a terminal: an unprintable character is written as \x1b or \u202e. Machine IDs, messages of admission policies and records
// come from a kubelet or a client. They must not move the cursor of an operator's terminal or hide its text. Output for programs (-o json and the
// like) is written unchanged.
func EscapeTerminal(streams genericiooptions.IOStreams) genericiooptions.IOStreams {
	streams.Out, streams.ErrOut = escapingWriter{streams.Out}, escapingWriter{streams.ErrOut}
	return streams
}

// escapingWriter is a writer of text for a terminal. One Write must not end within a character.
type escapingWriter struct{ writer io.Writer }

func (w escapingWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.writer, escapeUnprintable(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escapeUnprintable escapes control and format characters, save the allowed ones.
func escapeUnprintable(text, allowed string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r) || strings.ContainsRune(allowed, r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unescaped returns the writer below, which does not escape.
func unescaped(w io.Writer) io.Writer {
	if v, ok := w.(escapingWriter); ok {
		return v.writer
	}
	return w
}
