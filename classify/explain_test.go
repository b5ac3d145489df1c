package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/record"
)

func TestExplainSaysWhichFactsDecided(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	facts := Facts{Name: "n1", Labels: map[string]string{"mine": "1"}, System: System{Kernel: "6.1"}, Capacity: corev1.ResourceList{"cpu": resource.MustParse("8")}}
	to := func(value string) map[string]string { return map[string]string{"a": value} }
	cpu := func(want string) Condition {
		return Condition{Clause: Clause{Capacity: map[string]string{"cpu": want}}}
	}
	for name, c := range map[string]struct {
		rules []Rule
		prev  map[string]record.RuleLabel
		want  []string // of each step: rule, outcome, and facts
	}{
		"a true rule, and a later one": {
			rules: []Rule{{Name: "one", Condition: cpu(">=4"), Set: to("1")}, {Name: "two", Set: to("2")}},
			want:  []string{"one sets capacity.cpu=8", "two later"},
		},
		"a rule that removes a label, before one that sets it": {
			rules: []Rule{{Name: "one", Condition: cpu(">=4"), EnsureAbsent: []string{"a"}}, {Name: "two", Set: to("2")}},
			want:  []string{"one removes capacity.cpu=8", "two later"},
		},
		"only false facts of a false rule": {
			rules: []Rule{{Name: "one", Condition: Condition{Clause: Clause{Names: []string{"n*"}, Capacity: map[string]string{"cpu": ">=16"}}}, Set: to("1")}},
			want:  []string{"one false capacity.cpu=8"},
		},
		"a label is missing": {
			rules: []Rule{{Name: "one", Condition: Condition{Clause: Clause{Labels: "env=prod"}}, Set: to("1")}},
			want:  []string{"one false label env="},
		},
		"an unknown fact blocks a later default": {
			rules: []Rule{{Name: "one", Condition: Condition{Clause: Clause{Capacity: map[string]string{"x.com/gpu": ">=1"}}}, Set: to("1")}, {Name: "two", Set: to("2")}},
			want:  []string{"one unknown capacity.x.com/gpu=? yet", "two later"},
		},
		"a size of huge pages that may still be reported": {
			rules: []Rule{{Name: "one", Condition: Condition{Clause: Clause{Capacity: map[string]string{"hugepages-1Gi": ">=1"}}}, Set: to("1")}},
			want:  []string{"one unknown capacity.hugepages-1Gi=? yet"},
		},
		"an attribute of an inventory, which no plugin reports": {
			rules: []Rule{{Name: "one", Set: to("{inventory.racks.rack}")}}, want: []string{"one unknown inventory.racks.rack=?"},
		},
		"an unknown fact of the value": {
			rules: []Rule{{Name: "one", Set: to("{capacity.memory}")}}, want: []string{"one unknown capacity.memory=?"},
		},
		"the alternative that is true": {
			rules: []Rule{{Name: "one", Condition: Condition{Alternatives: []Clause{{Names: []string{"x"}}, {Kernel: "6*"}}}, Set: to("1")}},
			want:  []string{"one sets any[1] node.kernel=6.1"},
		},
		"a false alternative next to a true one does not decide": {
			rules: []Rule{{Name: "one", Condition: Condition{Clause: Clause{Capacity: map[string]string{"cpu": ">=16"}}, Alternatives: []Clause{{Names: []string{"x"}}, {Kernel: "6*"}}}, Set: to("1")}},
			want:  []string{"one false capacity.cpu=8"},
		},
		"alternatives that are false": {
			rules: []Rule{{Name: "one", Condition: Condition{Alternatives: []Clause{{Names: []string{"x"}}, cpu("<1").Clause}}, Set: to("1")}},
			want:  []string{"one false any[0] name=n1 any[1] capacity.cpu=8"},
		},
		"a held label": {
			rules: []Rule{{Name: "one", Condition: cpu("<1"), Set: to("1"), Hold: "15m"}},
			prev:  map[string]record.RuleLabel{"a": {Value: "1", Rule: "one"}}, want: []string{"one held capacity.cpu=8"},
		},
		"an operator's label, audit, and a value that can be no label": {
			rules: []Rule{
				{Name: "one", Set: map[string]string{"mine": "2"}}, {Name: "two", Set: to("2"), Mode: Audit},
				{Name: "three", Condition: Condition{Clause: Clause{Names: []string{"^(?P<x>n)"}}}, Set: to("{name.x}-")},
			},
			want: []string{"two audit", "three invalid name=n1 name.x=n", "one taken"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, errs := Compile(c.rules, field.NewPath("rules"))
			require.Empty(t, errs)
			result, steps := rules.Explain(facts, c.prev, now)
			assert.Equal(t, rules.Evaluate(facts, c.prev, now), result)
			var got []string
			for _, step := range steps {
				text := step.Rule + " " + string(step.Outcome)
				for _, test := range step.Tests {
					value := test.Value
					if !test.Known {
						value = "?"
					}
					if test.Plugin {
						value += " yet"
					}
					text += " " + test.Fact + "=" + value
				}
				got = append(got, text)
			}
			assert.Equal(t, c.want, got)
		})
	}
}
