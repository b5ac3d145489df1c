// Command promql prints the series and labels that PromQL expressions name. It reads a JSON array of expressions and writes one answer for
// each, in the same order. Prometheus' own parser does the work. This program has a module of its own, so that nothing of Prometheus enters
// the product's go.mod. The module also builds promtool.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// answer is what an expression names.
type answer struct {
	Error     string     `json:"error,omitempty"` // why it cannot be parsed; the rest is empty then
	Selectors []selector `json:"selectors"`
	Labels    []string   `json:"labels"` // in by, without, on, ignoring, group_left and group_right
}

// selector is what one series selector asks for.
type selector struct {
	Metric   string    `json:"metric"` // empty where the name is matched by something else than equality
	Matchers []matcher `json:"matchers"`
}

// matcher is a label, an operator (=, !=, =~, !~) and a value.
type matcher struct {
	Label    string `json:"label"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var expressions []string
	if err := json.NewDecoder(in).Decode(&expressions); err != nil {
		return fmt.Errorf("read a JSON array of expressions: %w", err)
	}
	parse := parser.NewParser(parser.Options{})
	answers := make([]answer, 0, len(expressions))
	for _, expression := range expressions {
		tree, err := parse.ParseExpr(expression)
		if err != nil {
			answers = append(answers, answer{Error: err.Error()})
			continue
		}
		answers = append(answers, named(tree))
	}
	return json.NewEncoder(out).Encode(answers)
}

// named collects what stands anywhere in an expression.
func named(tree parser.Expr) (found answer) {
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			found.Selectors = append(found.Selectors, selected(n))
		case *parser.AggregateExpr:
			found.Labels = append(found.Labels, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				found.Labels = append(found.Labels, n.VectorMatching.MatchingLabels...)
				found.Labels = append(found.Labels, n.VectorMatching.Include...)
			}
		}
		return nil
	})
	return found
}

func selected(n *parser.VectorSelector) selector {
	s := selector{Metric: n.Name}
	for _, m := range n.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			s.Metric = m.Value
			continue
		}
		s.Matchers = append(s.Matchers, matcher{Label: m.Name, Operator: m.Type.String(), Value: m.Value})
	}
	return s
}
