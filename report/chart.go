package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// chart is bars that lie below each other, or columns that stand side by side.
type chart struct {
	title   string
	bars    []bar
	columns bool
}

// bar is one number of a chart.
type bar struct {
	name  string
	value float64
	shown string // the number as text
	class string // of the style; empty: the usual colour
}

// mostBars is how many bars a chart has. The last one adds up the others where they can be added up.
const mostBars = 12

// Sizes of a chart, in units of its viewBox.
const (
	chartWidth  = 480
	barHeight   = 22
	nameWidth   = 170
	nameLetters = 24 // so many of a fixed width have room, whichever they are
	shownWidth  = 90
	columnSpace = 120
)

// figure returns a chart with its title. Every number of it is there as text, too.
func (p page) figure(c chart) *html.Node {
	svg := p.bars(c)
	if c.columns {
		svg = p.columns(c)
	}
	return p.element("figure", nil, p.text("figcaption", "", c.title), svg)
}

func (c chart) largest() (largest float64) {
	for _, bar := range c.bars {
		largest = max(largest, bar.value)
	}
	return largest
}

func (p page) svg(title string, width, height int, children ...*html.Node) *html.Node {
	attrs := attributes{"role": "img", "aria-label": title, "viewBox": fmt.Sprintf("0 0 %d %d", width, height), "preserveAspectRatio": "xMidYMid meet"}
	return p.element("svg", attrs, children...)
}

func (p page) bars(c chart) *html.Node {
	svg := p.svg(c.title, chartWidth, max(1, len(c.bars))*barHeight)
	if len(c.bars) == 0 {
		svg.AppendChild(p.element("text", attributes{"x": "0", "y": "15"}, textNode("nothing to show")))
	}
	full := float64(chartWidth - nameWidth - shownWidth)
	for i, bar := range c.bars {
		top := i * barHeight
		width := 0.0
		if largest := c.largest(); largest > 0 && bar.value > 0 {
			width = max(1, full*bar.value/largest)
		}
		name := p.element("text", attributes{"class": "name", "x": itoa(nameWidth - 6), "y": itoa(top + 15), "text-anchor": "end"}, textNode(ending(bar.name, nameLetters)))
		if name.FirstChild.Data != visible(bar.name) {
			name.AppendChild(p.text("title", "", bar.name))
		}
		svg.AppendChild(name)
		svg.AppendChild(p.element("rect", attributes{
			"class": strings.TrimSpace("bar " + bar.class), "x": itoa(nameWidth), "y": itoa(top + 3), "rx": "2",
			"width": strconv.FormatFloat(width, 'f', 1, 64), "height": itoa(barHeight - 6),
		}))
		svg.AppendChild(p.element("text", attributes{"class": "value", "x": strconv.FormatFloat(nameWidth+width+6, 'f', 1, 64), "y": itoa(top + 15)}, textNode(bar.shown)))
	}
	return svg
}

func (p page) columns(c chart) *html.Node {
	svg := p.svg(c.title, chartWidth, columnSpace+40)
	largest := c.largest()
	svg.AppendChild(p.element("text", attributes{"class": "value", "x": "0", "y": "12"}, textNode("most on one day: "+strconv.FormatFloat(largest, 'f', -1, 64))))
	step := float64(chartWidth) / float64(max(1, len(c.bars)))
	for i, bar := range c.bars {
		height := 1.0
		if largest > 0 && bar.value > 0 {
			height = max(2, columnSpace*bar.value/largest)
		}
		svg.AppendChild(p.element("rect", attributes{
			"class": "bar", "x": strconv.FormatFloat(float64(i)*step+1, 'f', 1, 64), "y": strconv.FormatFloat(20+columnSpace-height, 'f', 1, 64),
			"width": strconv.FormatFloat(step-2, 'f', 1, 64), "height": strconv.FormatFloat(height, 'f', 1, 64),
		}, p.text("title", "", bar.name+": "+bar.shown)))
	}
	if len(c.bars) > 0 {
		svg.AppendChild(p.element("text", attributes{"x": "0", "y": itoa(columnSpace + 36)}, textNode(c.bars[0].name)))
		svg.AppendChild(p.element("text", attributes{"x": itoa(chartWidth), "y": itoa(columnSpace + 36), "text-anchor": "end"}, textNode(c.bars[len(c.bars)-1].name)))
	}
	return svg
}

// ending returns the end of a name, which distinguishes keys of one domain, if the name is longer.
func ending(name string, limit int) string {
	runes := []rune(visible(name))
	if len(runes) <= limit {
		return string(runes)
	}
	return "…" + string(runes[len(runes)-limit+1:])
}

// visible returns a text without control and format characters: these could reverse the text next to it.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, text)
}

// firstBars returns the first bars; the others are one, with their sum.
func firstBars(all []bar, text func(float64) string) []bar {
	if len(all) <= mostBars {
		return all
	}
	rest := bar{name: fmt.Sprintf("%d others", len(all)-mostBars+1), class: "rest"}
	for _, bar := range all[mostBars-1:] {
		rest.value += bar.value
	}
	rest.shown = text(rest.value)
	return append(append([]bar{}, all[:mostBars-1]...), rest)
}

// short numbers of what has no unit, and of bytes.
func plainNumber(value float64) string {
	return scaled(value, 1000, []string{"", " k", " M", " G", " T", " P"})
}
func bytesNumber(value float64) string {
	return scaled(value, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB", " PiB"})
}

func scaled(value, by float64, units []string) string {
	i := 0
	for ; (value >= 10*by || by == 1024 && value >= by) && i < len(units)-1; i++ {
		value /= by
	}
	text := strconv.FormatFloat(value, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + units[i]
}
