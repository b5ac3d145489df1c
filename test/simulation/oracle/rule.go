package oracle

import "fmt"

// Rule is what a rule does about a label. Of a [Renaming], only the new key is about it.
type Rule string

// The rules.
const (
	OperatorWins Rule = "operator" // it sets [ByRule] where no client has set another value
	RuleWins     Rule = "rule"     // it sets [ByRule] whatever a client has set
	KeptOff      Rule = "absent"   // it removes the label
)

// ByRule is the value that a rule sets.
const ByRule = "one"

// left returns what the rule leaves where no client has decided anything.
func (r Rule) left() string {
	if r == KeptOff {
		return ""
	}
	return ByRule
}

// shown returns what a Node shows while the rule is in force, if a client decided on a value last.
func (r Rule) shown(value string) string {
	if r == OperatorWins && value != "" {
		return value
	}
	return r.left()
}

// Ruled describes a fault of a Node when captures, which all follow the same policy, have nothing to do. If withdrawn, this policy no longer has the
// rule. If the last edit cannot be known, known is false.
func Ruled(log []Renaming, rule Rule, withdrawn bool) (wrong string, known bool) {
	node := log[len(log)-1]
	require := func(value, reason string) string {
		if node.New == value {
			return ""
		}
		return fmt.Sprintf("the Node has %q and must have %q: %s", node.New, value, reason)
	}
	i, _ := last(log)
	switch {
	case i < 0 && withdrawn:
		return require("", "nobody set it"), true
	case i < 0:
		return require(rule.left(), "the rule says so, and nobody set it"), true
	}
	edit := log[i]
	switch {
	case !edit.Seen, edit.New == "" && !traced(log, i, rule):
		return "", false
	case !withdrawn:
		return require(rule.shown(edit.New), fmt.Sprintf("the rule says so, and a client decided on %q last", edit.New)), true
	case !renamed(log, i, rule):
		return "", false
	default:
		return require(edit.New, "a client decided so last"), true
	}
}

// traced reports whether anything shows that a key existed before a client removed it. The annotation may list that the rule had set it. Otherwise
// capture must have worked on a state of that object that shows a client's value.
func traced(log []Renaming, i int, rule Rule) bool {
	edit := log[i]
	if edit.Listed {
		return true
	}
	for index := i - 1; index >= 0 && log[index].Object == edit.Object; index-- {
		prev := log[index]
		if prev.Exactly && prev.New != "" && (!prev.Listed || prev.New != rule.left()) {
			return true
		}
	}
	return false
}

// renamed reports whether anything distinguishes the last edit from what nodekeep did itself. A label that a client set back to what the rule had left
// looks as if nobody had touched it. It was touched if capture has worked on a state in which it was otherwise, after nodekeep changed it
// last.
func renamed(log []Renaming, i int, rule Rule) bool {
	edit := log[i]
	if !edit.Listed || edit.New != rule.left() {
		return true
	}
	for index := i - 1; index >= 0 && log[index].Object == edit.Object && log[index].Listed; index-- {
		prev := log[index]
		if prev.New == rule.left() {
			return false
		}
		if prev.Exactly && prev.New != "" {
			return true
		}
	}
	return false
}
