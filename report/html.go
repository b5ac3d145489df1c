package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// HTML returns the report as one page, with at most so many rows of each table. The page is a tree of elements, and the renderer of
// golang.org/x/net/html writes it. Texts of the cluster are only text nodes and attribute values, and the renderer escapes both. The
// package html/template would do the same, but the linker must then keep every method. That makes the program half as large again.
func HTML(r Report, rows int) (string, error) {
	p := page{rows: rows}
	body := p.element("main", nil, p.header(r))
	for _, section := range p.sections(r) {
		body.AppendChild(section)
	}
	root := p.element("html", attributes{"lang": "en"},
		p.element("head", nil,
			p.element("meta", attributes{"charset": "utf-8"}),
			p.element("meta", attributes{"name": "viewport", "content": "width=device-width, initial-scale=1"}),
			p.element("meta", attributes{"name": "color-scheme", "content": "light dark"}),
			p.element("meta", attributes{"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"}),
			p.element("title", nil, textNode("nodekeep report")),
			p.element("style", nil, &html.Node{Type: html.TextNode, Data: style})),
		p.element("body", nil, body))
	document := &html.Node{Type: html.DocumentNode}
	document.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	document.AppendChild(root)
	var b strings.Builder
	if err := html.Render(&b, document); err != nil {
		return "", fmt.Errorf("render the page: %w", err)
	}
	return b.String() + "\n", nil
}

// page makes elements.
type page struct{ rows int }

// attributes are those of an element; one that is empty is left out. Their names are constants of this package.
type attributes map[string]string

// order returns that in which attributes are written, so that equal reports are equal texts.
func (page) order() []string {
	return []string{"charset", "http-equiv", "name", "content", "lang", "rel", "href", "id", "class", "role", "scope", "aria-label", "viewBox", "preserveAspectRatio", "width", "height", "x", "y", "rx", "text-anchor"}
}

func (p page) element(name string, attrs attributes, children ...*html.Node) *html.Node {
	node := &html.Node{Type: html.ElementNode, Data: name, DataAtom: atom.Lookup([]byte(name))}
	for _, key := range p.order() {
		if value := attrs[key]; value != "" {
			node.Attr = append(node.Attr, html.Attribute{Key: key, Val: visible(value)})
		}
	}
	for _, child := range children {
		if child != nil {
			node.AppendChild(child)
		}
	}
	return node
}

// textNode returns a text of the cluster or of this package.
func textNode(text string) *html.Node { return &html.Node{Type: html.TextNode, Data: visible(text)} }

func (p page) text(name, class, text string) *html.Node {
	return p.element(name, attributes{"class": class}, textNode(text))
}

// header says of which cluster and when.
func (p page) header(r Report) *html.Node {
	heading := "Cluster " + r.Cluster + ", "
	if r.Cluster == "" {
		heading = ""
	}
	header := p.element("header", nil,
		p.text("h1", "", "Node labels"),
		p.text("p", "", heading+r.GeneratedAt.UTC().Format(time.RFC3339)))
	tiles := p.element("dl", attributes{"class": "tiles"})
	for _, tile := range tilesOf(r) {
		tiles.AppendChild(p.element("div", nil, p.text("dt", "", tile.name), p.text("dd", "", tile.value)))
	}
	header.AppendChild(tiles)
	return header
}

type tile struct{ name, value string }

// tilesOf returns the few numbers that come first.
func tilesOf(r Report) []tile {
	tiles := []tile{{"Nodes", strconv.Itoa(r.Nodes)}}
	if r.Summary != nil {
		tiles = append(tiles, tile{"Labels", strconv.Itoa(len(r.Summary.Labels))})
	}
	if c := r.Compliance; c != nil && c.Governed && c.Compliant+c.Violating > 0 {
		tiles = append(tiles, tile{"Compliant", percent(c.Compliant, c.Compliant+c.Violating)})
	}
	if r.Drift != nil {
		tiles = append(tiles, tile{"Nodes with drift", strconv.Itoa(r.Drift.Nodes)})
	}
	if r.Usage != nil {
		used := 0
		for _, key := range r.Usage.Keys {
			if key.Seen {
				used++
			}
		}
		tiles = append(tiles, tile{"Labels seen in use", strconv.Itoa(used)})
	}
	return tiles
}

func percent(part, all int) string {
	share := 100 * float64(part) / float64(all)
	if part < all { // one Node of many is never rounded away
		share = min(share, 99.9)
	}
	return strconv.FormatFloat(share, 'f', 1, 64) + " %"
}

// sections returns those of the report, each with its charts and tables.
func (p page) sections(r Report) (all []*html.Node) {
	for _, sec := range r.sections() {
		section := p.element("section", attributes{"id": sec.name}, p.text("h2", "", sec.title))
		figures := p.element("div", attributes{"class": "charts"})
		for _, chart := range sec.charts() {
			figures.AppendChild(p.figure(chart))
		}
		if figures.FirstChild != nil {
			section.AppendChild(figures)
		}
		for _, table := range sec.tables() {
			p.addTable(section, table)
		}
		all = append(all, section)
	}
	return all
}

// addTable adds a table with its note. A table without rows is left out.
func (p page) addTable(to *html.Node, table Table) {
	if table.DataOnly {
		return
	}
	if table.Note != "" {
		to.AppendChild(p.text("p", "note", table.Note))
	}
	shown, omitted := table.First(p.rows)
	if len(shown.Rows) == 0 {
		return
	}
	to.AppendChild(p.text("h3", "", table.Title))
	classes := make([]string, len(table.Columns))
	head := p.element("tr", nil)
	for i, column := range table.Columns {
		if column.Number {
			classes[i] = "number"
		}
		head.AppendChild(p.element("th", attributes{"scope": "col", "class": classes[i]}, textNode(column.Name)))
	}
	body := p.element("tbody", nil)
	for _, row := range shown.Rows {
		line := p.element("tr", nil)
		for i, value := range row {
			line.AppendChild(p.text("td", classes[i], Text(value)))
		}
		body.AppendChild(line)
	}
	to.AppendChild(p.element("div", attributes{"class": "table"}, p.element("table", nil, p.element("thead", nil, head), body)))
	if omitted > 0 {
		to.AppendChild(p.text("p", "note", fmt.Sprintf("%d of %d rows. -o json and -o csv have all.", len(shown.Rows), len(table.Rows))))
	}
}
