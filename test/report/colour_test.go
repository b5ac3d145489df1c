package report

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// contrast returns the contrast ratio of two colours (WCAG 2.2).
func contrast(t testing.TB, a, b string) float64 {
	t.Helper()
	light, dark := luminance(t, a), luminance(t, b)
	if light < dark {
		light, dark = dark, light
	}
	return (light + 0.05) / (dark + 0.05)
}

func luminance(t testing.TB, colour string) float64 {
	t.Helper()
	var red, green, blue float64
	_, err := fmt.Sscanf(colour, "rgb(%f, %f, %f)", &red, &green, &blue)
	require.NoError(t, err, colour)
	part := func(value float64) float64 {
		if value /= 255; value > 0.04045 {
			return math.Pow((value+0.055)/1.055, 2.4)
		}
		return value / 12.92
	}
	return 0.2126*part(red) + 0.7152*part(green) + 0.0722*part(blue)
}
