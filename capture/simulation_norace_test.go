//go:build oldcore && !race

package capture

const raceDetector = false
