package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

// ExplainedRule is what one rule says of one label, and why.
type ExplainedRule struct {
	classify.Step
	Reason string `json:"why"`
}

// explainRules explains each step. It adds what rules do not know: whether there is room for annotations, and when the grace of plugins ends.
func explainRules(s nodestate.State, steps []classify.Step, next capture.Action) (explained []ExplainedRule) {
	pluginGraceEnd := fmt.Sprintf("until the Node was Ready for %s", classify.PluginGrace)
	if ready := observe.FromNode(s.Node).Reported.ReadySince; ready != 0 {
		pluginGraceEnd = "until " + time.Unix(ready, 0).Add(classify.PluginGrace).UTC().Format(time.RFC3339)
	}
	decided := map[string]string{}
	for _, step := range steps {
		var reason string
		facts := factsText(step.Tests, pluginGraceEnd)
		unconditional := cmp.Or(facts, "it is for every Node")
		switch step.Outcome {
		case classify.Sets:
			if reason = "true: " + unconditional; noRoom(step, next) {
				reason = "not set: the annotations of the Node leave no room to list labels of rules"
			}
		case classify.Removes:
			reason = "true: " + unconditional
		case classify.False:
			reason = "false: " + facts
		case classify.Unknown:
			reason = "not known: " + facts + "; later rules wait"
			if step.Value != nil {
				reason += ", and the label stays"
			}
			if step.From != "" {
				reason += " as rule " + step.From + " has set it"
			}
		case classify.Held:
			reason = fmt.Sprintf("false: %s; the label is held until %s", facts, step.End.UTC().Format(time.RFC3339))
		case classify.Taken:
			reason = "the Node has the label from an operator or its kubelet, which stays; the rule is true: " + unconditional
		case classify.Audited:
			reason = "mode audit, nothing is set; the rule is true: " + unconditional
		case classify.Invalid:
			reason = "its value can be no label: " + unconditional
		case classify.Later:
			reason = "rule " + decided[step.Key] + " decides the label before"
		}
		if step.Outcome != classify.False && step.Outcome != classify.Later && step.Outcome != classify.Audited {
			decided[step.Key] = step.Rule
		}
		explained = append(explained, ExplainedRule{Step: step, Reason: reason})
	}
	return explained
}

// noRoom reports whether a label that a rule sets is not set, because the annotations are full.
func noRoom(step classify.Step, next capture.Action) bool {
	_, wanted := next.Rules.Labels[step.Key]
	_, listed := next.RuleLabels[step.Key]
	return wanted && !listed
}

// factsText lists facts with their values on the Node. plugins shows until when a device plugin may still register.
func factsText(tests []classify.Test, pluginGraceEnd string) string {
	texts := make([]string, len(tests))
	for i, test := range tests {
		value := test.Value
		switch {
		case !test.Known && test.Plugin:
			value = "not known " + pluginGraceEnd
		case !test.Known && strings.HasPrefix(test.Fact, classify.DevicesFact):
			value = "not known: the ResourceSlices cannot be read, or lack some of a pool"
		case !test.Known && strings.HasPrefix(test.Fact, classify.FeatureFact):
			value = unknownFeature(strings.TrimPrefix(test.Fact, classify.FeatureFact))
		case !test.Known && strings.HasPrefix(test.Fact, classify.InventoryFactPrefix):
			value = "not known here: only capture reads inventories, and the label stays as capture has set it"
		case !test.Known:
			value = "not known"
		case value == "":
			value = noValue
		}
		texts[i] = test.Fact + " is " + value
		if test.Want != "" {
			texts[i] += " (wanted: " + test.Want + ")"
		}
	}
	return strings.Join(texts, ", ")
}

// unknownFeature returns why a feature is not known.
func unknownFeature(name string) string {
	if classify.IsDeclared(name) {
		return "not known: status.declaredFeatures of the Node is empty"
	}
	set, _ := classify.CutFeature(name)
	return "not known: no NodeFeature object of the Node has " + set + ", or the objects cannot be read"
}

func rulesTable(rules []ExplainedRule) *metav1.Table {
	table := tableOf("Label of rules", "Rule", "Outcome", "Value", "Why")
	for _, rule := range rules {
		addRow(table, rule.Key, rule.Rule, string(rule.Outcome), nodestate.FormatValue(rule.Value), rule.Reason)
	}
	return table
}

// claimsOn returns what annotations of the Node say that other components set.
func claimsOn(s nodestate.State) []policy.Claim {
	if s.Node == nil {
		return nil
	}
	return policy.Claims(s.Node.Annotations)
}

// claimsOf names the components that claim an item.
func claimsOf(claims []policy.Claim, item string) (by []string) {
	for _, claim := range claims {
		if claim.Covers(item) {
			by = append(by, fmt.Sprintf("%s claims it (annotation %s)", claim.Owner, claim.Annotation))
		}
	}
	return by
}
