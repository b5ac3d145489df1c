// Package helm runs the pinned Helm of the Makefile, for tests that render or install the chart.
package helm
