//go:build oldcore

//go:build race

package capture

const raceDetector = true
