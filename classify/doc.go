// Package classify derives labels of a Node from facts about it, by labels.rules of the policy. docs/design.md has the design.
//
// [Compile] checks rules. [Facts] is what is known of a Node. [Rules.Evaluate] is one pass over the rules in their order. The package is
// pure: values in, values out.
//
// Invariants:
//   - The first rule that sets a key decides it. A rule selects on labels of earlier rules only, so there are no cycles. The result does
//     not depend on what rules set before.
//   - A fact that is not known makes a rule neither true nor false. Such a rule blocks its keys for the rules after it. So a default never
//     replaces a value because a device plugin has not registered yet. A blocked key keeps the value that the same rule gave it before.
//   - An attribute that an inventory does not have makes no label. A value that is no valid label value changes no label.
//   - Evaluate is total: whatever a kubelet reports leads to a valid label value, or to a [Problem] and no label.
//   - Patterns are RE2 and templates have no functions, so the time is linear in what a Node sends.
package classify
