package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// The size of a screen in characters, and of a character in pixels.
const (
	columns, rows         = 118, 24
	charWidth, lineHeight = 8, 18
	secondsAScreen        = 7
)

var stepTitle = regexp.MustCompile(`^\d+\. `)

// recording returns the output of the scenario as an SVG that shows one screen after the other, over and over.
func recording(output string) []byte {
	screens := screensOf(output)
	var svg strings.Builder
	width, height := columns*charWidth+24, (rows+1)*lineHeight
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="The output of make demo">`+"\n", width, height)
	svg.WriteString("<style>\n" +
		"rect { fill: #f6f8fa } text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }\n" +
		".title { font-weight: bold; fill: #0550ae } .typed { fill: #116329 }\n" +
		"@media (prefers-color-scheme: dark) { rect { fill: #0d1117 } text { fill: #e6edf3 } .title { fill: #79c0ff } .typed { fill: #7ee787 } }\n" +
		"g { visibility: hidden } g:first-of-type { visibility: visible }\n")
	share := 100 / float64(len(screens))
	for i := range screens {
		from, to := float64(i)*share, float64(i+1)*share
		fmt.Fprintf(&svg, "@keyframes s%d { 0%%, 100%% { visibility: hidden } %.2f%%, %.2f%% { visibility: visible } %.2f%% { visibility: hidden } }\n",
			i, from+0.01, to-0.02, min(to-0.01, 99.99))
		fmt.Fprintf(&svg, "#s%d { animation: s%d %ds step-end infinite }\n", i, i, len(screens)*secondsAScreen)
	}
	fmt.Fprintf(&svg, "</style>\n<rect width=\"%d\" height=\"%d\" rx=\"8\"/>\n", width, height)
	for i, lines := range screens {
		fmt.Fprintf(&svg, "<g id=\"s%d\">\n", i)
		for row, line := range lines {
			class := ""
			switch {
			case row == 0:
				class = ` class="title"`
			case strings.HasPrefix(strings.TrimSpace(line), "$ "), strings.HasPrefix(strings.TrimSpace(line), "POST "):
				class = ` class="typed"`
			}
			fmt.Fprintf(&svg, "<text x=\"12\" y=\"%d\"%s>%s</text>\n", (row+1)*lineHeight+4, class, html.EscapeString(line))
		}
		svg.WriteString("</g>\n")
	}
	svg.WriteString("</svg>\n")
	return []byte(svg.String())
}

// screensOf returns the steps of the scenario, each on a screen. A step that is too long for one loses its middle.
func screensOf(output string) [][]string {
	var screens [][]string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, " \n")
		if stepTitle.MatchString(line) {
			screens = append(screens, nil)
		}
		if len(screens) == 0 || line == "" {
			continue
		}
		if runes := []rune(line); len(runes) > columns {
			line = string(runes[:columns-3]) + "..."
		}
		screens[len(screens)-1] = append(screens[len(screens)-1], line)
	}
	for i, lines := range screens {
		if len(lines) > rows {
			screens[i] = append(append(lines[:rows-8:rows-8], "     ..."), lines[len(lines)-7:]...)
		}
	}
	return screens
}
