//go:build !race

package capture_test

const raceDetector = false
