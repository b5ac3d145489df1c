package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// answer is what is known of a condition.
type answer int

const (
	no answer = iota
	maybe
	yes
)

func answerOf(holds bool) answer {
	if holds {
		return yes
	}
	return no
}

// machine is a Node of the model: its facts, what operators said last, and what the rules last set.
type machine struct {
	name      string
	exists    bool
	cpu, gib  int
	room      int      // cores that its kubelet leaves to Pods
	blind     bool     // its kubelet cannot read CPU and memory, and reports 0
	gpus      int      // that its kubelet reports
	sick      int      // GPUs that its kubelet reports, and does not offer to Pods
	waited    bool     // time for device plugins to register
	cards     []string // models of the devices that its ResourceSlices list
	partly    bool     // one of its ResourceSlices is missing, as the others say
	left      bool     // it shows the label that its installer adds at each registration
	replaced  int      // how often another machine took its name
	installed int      // how often its system was installed again
	operators map[string]string
	ruled     map[string]setting
}

// setting is a label that a rule set.
type setting struct {
	value, rule string
	end         time.Time // when it ends, though its rule is false; zero: while the rule is true
	absent      bool      // the rule keeps the label off the Node
}

// question is a condition, and how the policy writes it.
type question struct {
	text string
	ask  func(m *machine, see view) answer
}

// view is what a rule sees of labels: a value, and whether it is known.
type view func(key string) (value string, present, known bool)

// healthy returns how many GPUs Pods can have.
func (m *machine) healthy() int { return max(0, m.gpus-m.sick) }

func gpusAtLeast(count int) question {
	return question{fmt.Sprintf(`capacity: {nvidia.com/gpu: ">=%d"}`, count), func(m *machine, _ view) answer {
		if m.gpus == 0 && !m.waited {
			return maybe
		}
		return answerOf(m.gpus >= count)
	}}
}

func roomAtLeast(cpu int) question {
	return question{fmt.Sprintf(`capacity: {cpu: ">=%d"}`, cpu), func(m *machine, _ view) answer {
		if m.blind {
			return maybe
		}
		return answerOf(m.room >= cpu)
	}}
}

// cardsAtLeast counts devices in ResourceSlices, of a model or of any. More may come while a slice is missing, and while drivers have time to start.
func cardsAtLeast(count int, model string) question {
	text := fmt.Sprintf("driver: %s, min: %d", driver, count)
	if model != "" {
		text += fmt.Sprintf(`, attributes: {productName: "*%s*"}`, model)
	}
	return question{"devices: {" + text + "}", func(m *machine, _ view) answer {
		found := 0
		for _, card := range m.cards {
			if strings.Contains(card, model) {
				found++
			}
		}
		if found < count && (m.partly || !m.waited) {
			return maybe
		}
		return answerOf(found >= count)
	}}
}

func sizeAtLeast(cpu, gib int) question {
	return question{fmt.Sprintf(`capacity: {cpu: ">=%d", memory: ">=%dGi"}`, cpu, gib), func(m *machine, _ view) answer {
		if m.blind {
			return maybe
		}
		return answerOf(m.room >= cpu && m.gib >= gib)
	}}
}

func named(prefix string) question {
	return question{fmt.Sprintf(`names: ["%s*"]`, prefix), func(m *machine, _ view) answer { return answerOf(strings.HasPrefix(m.name, prefix)) }}
}

func labelled(key, value string) question {
	return question{fmt.Sprintf("labels: %s=%s", key, value), func(_ *machine, see view) answer {
		text, present, known := see(key)
		if !known {
			return maybe
		}
		return answerOf(present && text == value)
	}}
}

func anyOf(questions ...question) question {
	texts := make([]string, len(questions))
	for n, q := range questions {
		texts[n] = "{" + q.text + "}"
	}
	return question{"any: [" + strings.Join(texts, ", ") + "]", func(m *machine, see view) answer {
		best := no
		for _, q := range questions {
			best = max(best, q.ask(m, see))
		}
		return best
	}}
}

func tautology() question { return question{"", func(*machine, view) answer { return yes }} }

// filled is a value that is not the same on every Node.
type filled struct {
	text  string
	value func(m *machine) (value string, known bool)
}

func gpuCount(head string) filled {
	return filled{head + "{capacity.nvidia.com/gpu}", func(m *machine) (string, bool) { return fmt.Sprint(head, m.gpus), m.gpus > 0 || m.waited }}
}

func healthyCount() filled {
	return filled{"{allocatable.nvidia.com/gpu}", func(m *machine) (string, bool) { return fmt.Sprint(m.healthy()), m.healthy() > 0 || m.waited }}
}

// rack is of a Node whose name is KIND-rNN-NUMBER.
func rack() filled {
	return filled{"r{name.rack}", func(m *machine) (string, bool) { return strings.Split(m.name, "-")[1], true }}
}

func racked() question {
	return question{`names: ["^[a-z0-9]+-r(?P<rack>[0-9]{2})-"]`, func(m *machine, _ view) answer { return answerOf(m.name != witness) }}
}

// rule is an entry of labels.rules.
type rule struct {
	name      string
	condition question
	set       map[string]string
	fill      map[string]filled
	absent    []string
	wins      bool          // over operators
	trusts    bool          // the kubelet
	hold      time.Duration // that the policy says; 0: none
	plugins   bool          // it looks at what device plugins and drivers report
	audit     bool          // it sets nothing
}

// holds is for how long a label stays after the rule became false.
func (r rule) holds() time.Duration {
	if r.plugins {
		return max(r.hold, grace)
	}
	return r.hold
}

func (s setting) String() string {
	if s.absent {
		s.value = "absent"
	}
	if s.end.IsZero() {
		return s.value + " by " + s.rule
	}
	return fmt.Sprintf("%s by %s until %s", s.value, s.rule, s.end.Format(time.TimeOnly))
}

// rules are those of a policy.
type rules []rule

// yaml returns the manifest of the policy.
func (all rules) yaml() string {
	var text strings.Builder
	text.WriteString("taints:\n  rules:\n  - {selector: accelerator=nvidia-gpu, taint: \"accelerator=nvidia-gpu:NoSchedule\"}\n  - {selector: pool, taint: \"pool={value}:NoSchedule\"}\nlabels:\n  rules:\n")
	for _, r := range all {
		fmt.Fprintf(&text, "  - name: %s\n    when: {%s}\n", r.name, r.condition.text)
		if r.hold > 0 {
			fmt.Fprintf(&text, "    hold: %s\n", r.hold)
		}
		if r.audit {
			text.WriteString("    mode: audit\n")
		}
		if len(r.absent) > 0 {
			fmt.Fprintf(&text, "    ensureAbsent: [%s]\n", strings.Join(r.absent, ", "))
			continue
		}
		text.WriteString("    set:\n")
		for _, key := range slices.Sorted(maps.Keys(r.set)) {
			fmt.Fprintf(&text, "      %s: %q\n", key, r.set[key])
		}
		for _, key := range slices.Sorted(maps.Keys(r.fill)) {
			fmt.Fprintf(&text, "      %s: %q\n", key, r.fill[key].text)
		}
		if r.wins {
			text.WriteString("    precedence: rule\n")
		}
		if r.trusts {
			text.WriteString("    trust: kubelet\n")
		}
	}
	return policytest.Manifest(text.String())
}

// named returns the rule of a name.
func (all rules) named(name string) rule {
	return all[slices.IndexFunc(all, func(r rule) bool { return r.name == name })]
}

func (r rule) keys() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(r.set)), slices.Collect(maps.Keys(r.fill)), r.absent)))
}

// maker returns the rule that made a setting, if it makes it still. Without a rule of that name, it is the first from an index on that makes the same.
func (all rules) maker(from int, key string, prev setting) int {
	for i, r := range all {
		if r.name == prev.rule {
			if slices.Contains(r.keys(), key) && slices.Contains(r.absent, key) == prev.absent {
				return i
			}
			return -1
		}
	}
	for i := from; i < len(all); i++ {
		r := all[i]
		_, filled := r.fill[key]
		if slices.Contains(r.keys(), key) && slices.Contains(r.absent, key) == prev.absent && (prev.absent || filled || r.set[key] == prev.value) {
			return i
		}
	}
	return -1
}

func (r rule) value(key string, m *machine) (value string, known bool) {
	if fill, ok := r.fill[key]; ok {
		return fill.value(m)
	}
	return r.set[key], true
}

// outcome is what rules make of a Node: what they set, and what they cannot decide.
type outcome struct {
	set  map[string]setting
	open map[string]bool
}

// apply is one pass over the rules. Of what they set before, only what is open, and what is held, counts. Rules in audit do not take part.
func (all rules) apply(m *machine, now time.Time) outcome {
	all = slices.DeleteFunc(slices.Clone(all), func(r rule) bool { return r.audit })
	o, decided := outcome{map[string]setting{}, map[string]bool{}}, map[string]bool{}
	see := func(key string) (string, bool, bool) {
		if set, ok := o.set[key]; ok {
			return set.value, true, !o.open[key]
		}
		value, present := m.operators[key]
		return value, present, !o.open[key]
	}
	for n, r := range all {
		holds := r.condition.ask(m, see)
		for _, key := range r.keys() {
			if decided[key] {
				continue
			}
			_, taken := m.operators[key]
			prev, ok := m.ruled[key]
			value, known := r.value(key, m)
			var give setting
			wins, removes := r.wins, slices.Contains(r.absent, key)
			switch {
			case holds == yes && known:
				give = setting{value: value, rule: r.name, absent: removes}
			case holds != no:
				o.open[key], decided[key] = true, true
				by := all.maker(n, key, prev)
				if !ok || by < n {
					continue
				}
				give, wins = setting{value: prev.value, rule: all[by].name, absent: prev.absent}, all[by].wins
				if literal, ok := all[by].set[key]; ok {
					give.value = literal
				}
			case taken && !r.wins && !removes: // what an operator has set since is not held
				continue
			case ok && all.maker(n, key, prev) == n && r.holds() > 0 && (prev.end.IsZero() || now.Before(prev.end)):
				give = prev
				give.rule = r.name
				if end := now.Add(r.holds()); give.end.IsZero() || give.end.After(end) {
					give.end = end
				}
			default:
				continue
			}
			decided[key] = true
			if !taken || wins || give.absent {
				o.set[key] = give
			}
		}
	}
	return o
}

// alters reports whether new rules change Nodes. They may change or remove a label that old rules had set, at once or after its hold. They may
// remove what others had set, or restore what old rules had removed.
func (m *machine) alters(next map[string]setting) bool {
	shown, shows := m.labels(m.ruled), m.labels(next)
	for _, key := range allKeys() {
		prev, ruled := m.ruled[key]
		current := next[key]
		head, ok := shown[key]
		now, found := shows[key]
		switch {
		case ruled && prev.end.IsZero() && !current.end.IsZero(),
			ruled && prev.absent && found,
			ok && (!found || now != head):
			return true
		}
	}
	return false
}

// added returns what the Node carries while new rules are held: what it had, and what they add.
func (m *machine) added(next map[string]setting) map[string]setting {
	all, shown := maps.Clone(next), m.labels(m.ruled)
	maps.DeleteFunc(all, func(key string, _ setting) bool { _, ok := shown[key]; return ok })
	maps.Copy(all, m.ruled)
	return all
}

// labels returns those that the Node must show, of keys that rules may set.
func (m *machine) labels(set map[string]setting) map[string]string {
	shown := map[string]string{}
	if m.left {
		shown[leftOver] = "1"
	}
	for _, key := range allKeys() {
		if value, ok := m.operators[key]; ok {
			shown[key] = value
		}
		if by, ok := set[key]; ok && by.absent {
			delete(shown, key)
		} else if ok {
			shown[key] = by.value
		}
	}
	return shown
}

// taints returns those that the labels ask for.
func taints(labels map[string]string) []string {
	wanted := []string{}
	if labels["accelerator"] == "nvidia-gpu" {
		wanted = append(wanted, "accelerator=nvidia-gpu:NoSchedule")
	}
	if pool, ok := labels["pool"]; ok {
		wanted = append(wanted, "pool="+pool+":NoSchedule")
	}
	return wanted
}
