// Package image tests the container image of `make image` as a cluster would run it. The layer is unpacked and mounted read-only. The two processes
// run in it as the image's user, against a real control plane.
//
// It also compares the places that state the same facts: the Dockerfile, the image and the chart.
package image
