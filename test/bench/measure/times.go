package measure

import (
	"slices"
	"time"
)

// Times are how long calls took.
type Times []time.Duration

// Quantile returns the time that this part of the calls did not exceed; q is between 0 and 1. It is 0 without measurements.
func (t Times) Quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Mean returns the average. It is 0 without measurements.
func (t Times) Mean() (mean time.Duration) {
	for _, each := range t {
		mean += each
	}
	return mean / time.Duration(max(1, len(t)))
}

// Milliseconds returns quantiles as cells of a table.
func (t Times) Milliseconds(quantiles ...float64) (cells []any) {
	for _, q := range quantiles {
		cells = append(cells, Milliseconds(t.Quantile(q)))
	}
	return cells
}

// Median returns the middle one of some numbers, 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
