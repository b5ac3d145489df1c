package report

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// counted returns the bar of a number of things.
func counted(name string, n int, class string) bar {
	return bar{name: name, value: float64(n), shown: itoa(n), class: class}
}

// byValue has the largest bars first.
func byValue(a, b bar) int { return cmp.Compare(b.value, a.value) }

func (s Summary) charts() []chart {
	draw := func(title string, text func(float64) string, value func(Tier) float64) chart {
		c := chart{title: title}
		for _, tier := range s.Tiers {
			c.bars = append(c.bars, bar{name: Text(tier.Value), value: value(tier), shown: text(value(tier))})
		}
		slices.SortStableFunc(c.bars, byValue)
		c.bars = firstBars(c.bars, text)
		return c
	}
	charts := []chart{draw("Nodes by "+s.TierKey, plainNumber, func(t Tier) float64 { return float64(t.Nodes) })}
	for _, name := range s.Resources {
		text := plainNumber
		if isBytes(name) {
			text = bytesNumber
		}
		if len(charts) < 6 && name != string(corev1.ResourceEphemeralStorage) && !isHugePages(name) {
			charts = append(charts, draw(capacityTitle(name)+" by "+s.TierKey, text, func(t Tier) float64 { return amountOf(t.Capacity, name) }))
		}
	}
	cardinality := chart{title: "Different values of a label"}
	for _, label := range s.Labels {
		cardinality.bars = append(cardinality.bars, bar{name: label.Key, value: float64(label.Values), shown: plainNumber(float64(label.Values))})
	}
	slices.SortStableFunc(cardinality.bars, byValue)
	cardinality.bars = cardinality.bars[:min(len(cardinality.bars), mostBars)]
	days := chart{title: "Recorded changes by day", columns: true}
	for _, day := range s.Changes.Days {
		days.bars = append(days.bars, counted(day.Day, day.Changes, ""))
	}
	return append(charts, cardinality, days)
}

func isHugePages(name string) bool { return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) }

func capacityTitle(name string) string {
	switch name {
	case string(corev1.ResourceCPU):
		return "CPU cores"
	case string(corev1.ResourceMemory):
		return "Memory"
	case string(corev1.ResourcePods):
		return "Pods at most"
	default:
		return name
	}
}

func (c Compliance) charts() []chart {
	if !c.Governed {
		return nil
	}
	nodes := chart{title: "Nodes", bars: []bar{
		counted("compliant", c.Compliant, "good"), counted("with violations", c.Violating, "bad"),
	}}
	rules := chart{title: "Nodes that break a rule"}
	for _, rule := range c.Rules[:min(len(c.Rules), mostBars)] {
		rules.bars = append(rules.bars, counted(rule.Rule+": "+rule.Kind, rule.Nodes, "bad"))
	}
	return []chart{nodes, rules}
}

func (d Drift) charts() []chart {
	nodes := chart{title: "Nodes", bars: []bar{
		counted("no difference", d.Compared-d.Nodes, "good"), counted("with differences", d.Nodes, "bad"),
	}}
	keys := chart{title: "Nodes on which a label differs"}
	for _, group := range d.Groups[:min(len(d.Groups), mostBars)] {
		keys.bars = append(keys.bars, counted(group.Key, group.Nodes, "bad"))
	}
	return []chart{nodes, keys}
}

func (u Usage) charts() []chart {
	pods := chart{title: "Pods that select on a label"}
	for _, key := range u.Keys[:min(len(u.Keys), mostBars)] {
		if n := key.Objects["Pod"]; n > 0 {
			pods.bars = append(pods.bars, bar{name: key.Key, value: float64(n), shown: plainNumber(float64(n))})
		}
	}
	rest := chart{title: "Other objects that select on a label"}
	for _, key := range u.Keys {
		if n := key.workloads(); n > 0 {
			rest.bars = append(rest.bars, counted(key.Key, n, ""))
		}
	}
	slices.SortStableFunc(rest.bars, byValue)
	rest.bars = rest.bars[:min(len(rest.bars), mostBars)]
	return []chart{pods, rest}
}

func (c Cost) charts() []chart {
	nodes, cores := chart{title: "Node-hours by " + c.Key}, chart{title: "Core-hours by " + c.Key}
	for _, row := range c.Rows {
		nodes.bars = append(nodes.bars, bar{name: Text(row.Value), value: row.NodeHours, shown: plainNumber(row.NodeHours)})
		cores.bars = append(cores.bars, bar{name: Text(row.Value), value: row.CoreHours, shown: plainNumber(row.CoreHours)})
	}
	slices.SortStableFunc(cores.bars, byValue)
	nodes.bars, cores.bars = firstBars(nodes.bars, plainNumber), firstBars(cores.bars, plainNumber)
	return []chart{nodes, cores}
}
