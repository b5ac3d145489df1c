// Package image tests the container image that `make image` makes, as a cluster would run it: the layer is unpacked, mounted
// read-only, and the two processes run in it as the image's user, against a real control plane.
//
// It also holds what says the same thing twice to one another: the Dockerfile, the image and the chart.
package image
