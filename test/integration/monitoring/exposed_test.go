package monitoring

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// exposed are series that were scraped: their labels, by name.
type exposed map[string][]map[string]string

// targetLabels are what Prometheus adds to what it scrapes, here by the chart's PodMonitor; cluster is there where operators add it.
var targetLabels = []string{"cluster", "namespace", "pod", "instance"}

// foreign are series that no process of nodekeep serves, and that are looked for at kube-apiserver.
var foreign = []string{
	"apiserver_admission_webhook_fail_open_count",
	"apiserver_admission_webhook_admission_duration_seconds_bucket",
}

// add reads a scrape. only says which series count; nil: all.
func (e exposed) add(t *testing.T, body io.Reader, keys []string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	require.NoError(t, err)
	for name, family := range families {
		for _, metric := range family.Metric {
			labels := map[string]string{}
			for _, pair := range metric.Label {
				labels[pair.GetName()] = pair.GetValue()
			}
			for _, series := range seriesOf(name, family.GetType(), metric, labels) {
				if keys == nil || slices.Contains(keys, series.name) {
					e[series.name] = append(e[series.name], series.labels)
				}
			}
		}
	}
}

type series struct {
	name   string
	labels map[string]string
}

func seriesOf(name string, kind dto.MetricType, metric *dto.Metric, labels map[string]string) []series {
	if kind != dto.MetricType_HISTOGRAM {
		return []series{{name, labels}}
	}
	all := []series{{name + "_count", labels}, {name + "_sum", labels}}
	for _, bucket := range append(metric.GetHistogram().Bucket, &dto.Bucket{UpperBound: new(math.Inf(1))}) {
		replacement := map[string]string{"le": strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64)}
		for key, value := range labels {
			replacement[key] = value
		}
		all = append(all, series{name + "_bucket", replacement})
	}
	return all
}

// lacks says what an expression names and nobody serves.
func (e exposed) lacks(n named) (complaints []string) {
	grouped := map[string]bool{}
	for _, s := range n.Selectors {
		all := e[s.Metric]
		if len(all) == 0 {
			complaints = append(complaints, fmt.Sprintf("no process serves %q", s.Metric))
		}
		for _, labels := range all {
			for label := range labels {
				grouped[label] = true
			}
		}
		for _, m := range s.Matchers {
			if slices.Contains(targetLabels, m.Label) {
				continue
			}
			for _, wanted := range m.wants() {
				if !slices.ContainsFunc(all, func(labels map[string]string) bool {
					value, ok := labels[m.Label]
					return ok && wanted.MatchString(value)
				}) {
					complaints = append(complaints, fmt.Sprintf("no series %s has %s%s%q (looked for %s)", s.Metric, m.Label, m.Operator, m.Value, wanted))
				}
			}
		}
	}
	for _, label := range n.Labels {
		if !grouped[label] && !slices.Contains(targetLabels, label) {
			complaints = append(complaints, fmt.Sprintf("no series in it has the label %q", label))
		}
	}
	return complaints
}
