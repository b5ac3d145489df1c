package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARecordingHasAScreenForEachStepAndIsWellFormed(t *testing.T) {
	long := strings.Repeat("   line\n", 2*rows)
	svg := string(recording("Starting.\n\n1. The first & <only> step\n   $ kubectl get nodes\n\n2. A long one\n" + long + "   the end\n"))
	assert.Equal(t, 2, strings.Count(svg, "<g id="))
	assert.Contains(t, svg, "1. The first &amp; &lt;only&gt; step")
	assert.NotContains(t, svg, "Starting")
	assert.Contains(t, svg, "the end")
	assert.LessOrEqual(t, strings.Count(svg, "line</text>"), rows)
	wellFormed(t, svg)
}

func TestTheRecordingOfTheReadmeShowsTheStepsOfTheDemo(t *testing.T) {
	svg, err := os.ReadFile("../../docs/images/demo.svg")
	require.NoError(t, err)
	wellFormed(t, string(svg))
	source, err := os.ReadFile("scenario.go")
	require.NoError(t, err)
	steps := 0
	for line := range strings.Lines(string(source)) {
		if _, title, ok := strings.Cut(line, `s.step("`); ok {
			steps++
			title, _, _ = strings.Cut(title, `")`)
			assert.Contains(t, string(svg), strings.ReplaceAll(title, "'", "&#39;"), "run `make recording`")
		}
	}
	assert.Equal(t, steps, strings.Count(string(svg), "<g id="), "run `make recording`")
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if !assert.NoError(t, err) {
			return
		}
	}
}
