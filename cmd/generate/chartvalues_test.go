package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachValueOfTheChartHasARow(t *testing.T) {
	for name, tt := range map[string]struct{ file, rows string }{
		"a text, and its comment on several lines": {
			file: "# Which way.\n# a: one; b|c: <another> of *.\nmode: a\n",
			rows: "| mode | string | `\"a\"` | Which way. a: one; b\\|c: &lt;another&gt; of \\*. |",
		},
		"numbers, lists and switches": {
			file: "# How many.\nreplicas: 3\n# Whether.\non: true\n# Which.\nlist: []\n# What share.\nshare: 0.5\n",
			rows: "| replicas | int | `3` | How many. |\n| on | bool | `true` | Whether. |\n| list | list | `[]` | Which. |\n| share | float | `0.5` | What share. |",
		},
		"a list of objects is one value": {
			file: "# Which.\ntolerations:\n- {operator: Exists, effect: NoSchedule}\n",
			rows: "| tolerations | list | `[{\"effect\":\"NoSchedule\",\"operator\":\"Exists\"}]` | Which. |",
		},
		"an object that explains its values": {
			file: "image:\n  # Where.\n  repository: a\n  pull:\n    # When.\n    policy: b\n",
			rows: "| image.repository | string | `\"a\"` | Where. |\n| image.pull.policy | string | `\"b\"` | When. |",
		},
		"an object that is explained as one": {
			file: "# What for.\nselector:\n  kubernetes.io/os: linux\n",
			rows: "| selector | object | `{\"kubernetes.io/os\":\"linux\"}` | What for. |",
		},
		"an object that is explained, and its values, too": {
			file: "# All.\npods:\n  # One.\n  a: 1\n",
			rows: "| pods | object | | All. |\n| pods.a | int | `1` | One. |",
		},
		"an object whose comment is that of one value": {
			file: "# Serve.\nmetrics:\n  enabled: true\n  # How.\n  secure: false\n",
			rows: "| metrics.enabled | bool | `true` | Serve. |\n| metrics.secure | bool | `false` | How. |",
		},
		"what stands above all values belongs to none": {
			file: "# The values.\n\nimage:\n  # Where.\n  repository: a\n",
			rows: "| image.repository | string | `\"a\"` | Where. |",
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := chartValues([]byte(tt.file))
			require.NoError(t, err)
			assert.Equal(t, "| Key | Type | Default | Description |\n|-----|------|---------|-------------|\n"+tt.rows+"\n", table)
		})
	}
}

func TestValuesOfWhichNoTableCanBeMadeAreAnError(t *testing.T) {
	_, err := chartValues([]byte("a:\n"))
	require.EqualError(t, err, "a has no default, so nobody can say of which type it is")
	_, err = chartValues([]byte("[a]"))
	require.EqualError(t, err, "the values are no object")
	_, err = chartValues([]byte("a: [b"))
	require.ErrorContains(t, err, "read the values: ")
}

func TestThePageOfTheChartIsWhatTheGeneratorWrites(t *testing.T) {
	fromRoot := func(name string) ([]byte, error) { return os.ReadFile("../../" + name) }
	page, err := chartPage(fromRoot)
	require.NoError(t, err)
	committed, err := fromRoot(chartFile)
	require.NoError(t, err)
	require.Equal(t, string(committed), string(page), "run make manifests")
	assert.Greater(t, strings.Count(string(page), "\n| "), 70, "the table must have been made")
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") {
			assert.NotEqual(t, " |\n", cells[len(cells)-1], line)
		}
	}
}
