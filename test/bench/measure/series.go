package measure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Series is a metrics page, by the text before each value: a name, and labels in braces.
type Series map[string]float64

// Scrape reads a page of metrics in Prometheus' text format.
func Scrape(ctx context.Context, client *http.Client, url string) (Series, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape %s: %s", url, response.Status)
	}
	return ReadSeries(response.Body)
}

// ReadSeries reads a page of metrics. Lines that are none are left out.
func ReadSeries(page io.Reader) (Series, error) {
	found := Series{}
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || space < 0 {
			continue
		}
		if value, err := strconv.ParseFloat(line[space+1:], 64); err == nil {
			found[line[:space]] = value
		}
	}
	return found, lines.Err()
}

// Sum adds up the series of a name whose labels hold all of these texts, such as `outcome="restored"`.
func (s Series) Sum(name string, labels ...string) (total float64) {
next:
	for key, value := range s {
		rest, found := strings.CutPrefix(key, name)
		if !found || rest != "" && rest[0] != '{' {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue next
			}
		}
		total += value
	}
	return total
}
