package measure_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

func TestQuantile(t *testing.T) {
	var times measure.Times
	for n := range 100 {
		times = append(times, time.Duration(100-n))
	}
	for name, c := range map[string]struct {
		times measure.Times
		q     float64
		want  time.Duration
	}{
		"the middle":       {times, 0.5, 51},
		"the last percent": {times, 0.99, 100},
		"the last one":     {times, 1, 100},
		"of one":           {measure.Times{7}, 0.99, 7},
		"of none":          {nil, 0.5, 0},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.times.Quantile(c.q)) })
	}
}

func TestMedian(t *testing.T) {
	assert.InDelta(t, 2.0, measure.Median([]float64{3, 1, 2}), 0)
	assert.InDelta(t, 2.5, measure.Median([]float64{4, 3, 1, 2}), 0)
	assert.InDelta(t, 0.0, measure.Median(nil), 0)
}

func TestRun(t *testing.T) {
	names := strings.Fields("a b c d e f g")
	t.Run("measures every call", func(t *testing.T) {
		load, err := measure.Run(t.Context(), names, 3, func(context.Context, string) error { return nil })
		require.NoError(t, err)
		assert.Len(t, load.Times, len(names))
		assert.Positive(t, load.Rate())
	})
	t.Run("stops at the first error, also when every worker has one", func(t *testing.T) {
		broken := errors.New("broken")
		load, err := measure.Run(t.Context(), names, 2, func(context.Context, string) error { return broken })
		require.ErrorIs(t, err, broken)
		assert.Empty(t, load.Times)
	})
}

func TestUsageOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("needs Linux: no /proc")
	}
	usage, err := measure.UsageOf(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, usage.Resident, int64(1<<20))
	assert.GreaterOrEqual(t, usage.Peak, usage.Resident/2)
	_, err = measure.UsageOf(-1)
	assert.Error(t, err)
}

func TestSeries(t *testing.T) {
	series, err := measure.ReadSeries(strings.NewReader("# HELP a b\na{x=\"1\",y=\"2\"} 3\na{x=\"2\"} 4\na_b 5\nnonsense\n"))
	require.NoError(t, err)
	assert.InDelta(t, 7.0, series.Sum("a"), 0)
	assert.InDelta(t, 3.0, series.Sum("a", `y="2"`), 0)
	assert.InDelta(t, 5.0, series.Sum("a_b"), 0)
}

func TestATableIsMarkdownAndASliceStandsForSeveralCells(t *testing.T) {
	var out strings.Builder
	table := measure.NewTable(&out, "Times", "what", "p50", "longest", "ratio")
	table.Row("a call", measure.Times{time.Millisecond, 2 * time.Millisecond}.Milliseconds(0.5, 1), measure.Ratio(3, 2))
	table.Row("none", []any{[]any{"", ""}, measure.Ratio(3, 0)})
	table.Flush()
	assert.Equal(t, "\n### Times\n\n"+
		"| what   | p50     | longest | ratio |\n"+
		"| ----   | ---     | ------- | ----- |\n"+
		"| a call | 2.00 ms | 2.00 ms | 1.50  |\n"+
		"| none   |         |         |       |\n", out.String())
}
