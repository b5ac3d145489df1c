package report

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// width is that of a usual browser window, and of the screenshots.
const (
	width = 1200
	shown = 1500 // the height of the screenshots
)

func TestThePageShowsItsChartsWithoutAnythingFromElsewhere(t *testing.T) {
	policyFile := populate(t)
	out, _, _ := measured(t, "report", "--policy", policyFile, "--tier", tier, "-o", "html")
	assert.NotRegexp(t, `(?i)<script|<iframe|<object|url\(|@import|src=`, string(out))

	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(out)
	}))
	defer server.Close()
	b := openBrowser(t)
	background := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		b.open(server.URL+"/report.html", scheme, width, 1000)
		background[scheme] = evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)
		ink := evaluate[string](b, `getComputedStyle(document.body).color`)
		assert.Greater(t, contrast(t, background[scheme], ink), 7.0, "%s: text on its background", scheme)
		bar := evaluate[string](b, `getComputedStyle(document.querySelector("rect.bar")).fill`)
		assert.Greater(t, contrast(t, background[scheme], bar), 3.0, "%s: bars on their background", scheme)

		charts := evaluate[int](b, `document.querySelectorAll("figure svg").length`)
		assert.GreaterOrEqual(t, charts, 10)
		assert.Zero(t, evaluate[int](b, `[...document.querySelectorAll("figure svg")].filter(svg => ![...svg.querySelectorAll("rect")].some(r => r.getBoundingClientRect().width > 1 && r.getBoundingClientRect().height > 1) && !svg.textContent.includes("nothing to show")).length`), "charts without content")
		for _, size := range []int{width, 600, 360} {
			b.open(server.URL+"/report.html", scheme, size, 1000)
			assert.Zero(t, evaluate[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`), "%s, %d pixels: the page is as wide as the window", scheme, size)
			assert.Empty(t, evaluate[[]string](b, `[...document.querySelectorAll("svg text")].filter(text => { const of = text.getBoundingClientRect(), svg = text.ownerSVGElement.getBoundingClientRect(); return of.width > 0 && (of.left < svg.left - 1 || of.right > svg.right + 1 || of.bottom > svg.bottom + 2) }).map(text => text.textContent)`), "%s, %d pixels: text that leaves its chart", scheme, size)
		}
		b.open(server.URL+"/report.html", scheme, width, 1000)
		png := b.screenshot(width, shown)
		assert.True(t, bytes.HasPrefix(png, []byte("\x89PNG")))
		if *screenshots {
			require.NoError(t, os.WriteFile(filepath.Join(harness.Root(), "docs", "images", "report-"+scheme+".png"), png, 0o600))
		}
	}
	assert.NotEqual(t, background["light"], background["dark"])
	printed := b.pdf()
	assert.True(t, bytes.HasPrefix(printed, []byte("%PDF-")))
	assert.Greater(t, len(printed), 20_000)
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": "print", "features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	assert.Equal(t, "rgb(255, 255, 255)", evaluate[string](b, `getComputedStyle(document.body).backgroundColor`), "paper is white")

	for _, url := range b.requests {
		assert.True(t, strings.HasPrefix(url, server.URL+"/report.html") || url == "about:blank" || url == server.URL+"/favicon.ico", "the page asked for %s", url)
	}
	for _, path := range asked {
		assert.Contains(t, []string{"/report.html", "/favicon.ico"}, path)
	}
	assert.Empty(t, b.problems)
}
