package view

import (
	"errors"
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// maxErrorText bounds what a sentence quotes of an error: a client wrote what is wrong.
const maxErrorText = 300

// ShortError returns why a manifest cannot be used, in one line: its first error, and how many more there are.
func ShortError(err error) string {
	var errs policy.FileErrors
	if !errors.As(err, &errs) || len(errs) == 0 {
		return oneLine(err.Error())
	}
	text := oneLine(errs[0].Message)
	if omitted := len(errs) - 1; omitted > 0 {
		text += fmt.Sprintf(" (and %s, which nodekeep check names)", Counted(omitted, "more error"))
	}
	return text
}

func oneLine(text string) string {
	if len(text) > maxErrorText {
		text = policy.Shortened(text, maxErrorText) + "..."
	}
	return strings.Join(strings.Fields(text), " ")
}

// InForceInstead returns what is in force where the NodePolicy does not count.
func InForceInstead(inForce nodepolicy.InForce) string {
	switch {
	case inForce.CopiesUnusable:
		return "what was accepted before cannot be used either, so the default policy is in force (ConfigMap " + store.AcceptedConfigMap + ")"
	case inForce.AcceptedKey == "":
		return "none was accepted before, so the default policy is in force"
	}
	return "what was accepted last stays in force (key " + inForce.AcceptedKey + " of ConfigMap " + store.AcceptedConfigMap + ")"
}

// maxBehind is how many Pods are named that have not read the policy.
const maxBehind = 3

// OldPolicySentence says which Pods have not read the policy.
func OldPolicySentence(inForce nodepolicy.InForce, podsWithOldPolicy []string) string {
	named := strings.Join(podsWithOldPolicy[:min(len(podsWithOldPolicy), maxBehind)], ", ")
	if omitted := len(podsWithOldPolicy) - maxBehind; omitted > 0 {
		named += fmt.Sprintf(" and %d more", omitted)
	}
	return fmt.Sprintf("Not read yet by %s: the policy's generation %d.", named, inForce.Generation)
}

// RulesNamed returns the rules of a hash, as the subject of a sentence.
func RulesNamed(hash string) string {
	if hash == policy.NoRules {
		return "the policy without rules"
	}
	return "the rules " + hash
}

// HeldSentence says what rules that are held do meanwhile, and until when.
func HeldSentence(hash, until string) string {
	if hash == policy.NoRules {
		return "the policy has no rules, and the labels of earlier rules stay, " + until
	}
	return "the rules " + hash + " only add labels, " + until
}

// HeldUntil says until when rules of the policy that are not in force only add labels. An operator has accepted the rules of that hash last.
func HeldUntil(inForce nodepolicy.InForce, accepted string) string {
	rules := inForce.Policy.RulesHash()
	switch held := inForce.Status.Held; {
	case inForce.Policy.AcceptsRules(), accepted == rules:
		return "until capture carries out that they were accepted, within a minute"
	case held != nil && held.Rules == rules:
		for _, m := range inForce.Policy.Migrations() {
			if m.Phase == policy.MigrateNew {
				return "until nodekeep accept migration " + m.From + "=" + m.To
			}
		}
		return "until nodekeep accept rules " + rules
	}
	return "until capture has counted on how many Nodes they remove or change labels, within a minute; then it puts them in force, or holds them"
}
