package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/api/v1alpha1"
	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// PolicyInForce is which policy is in force, as far as the cluster shows it.
type PolicyInForce struct {
	Policy policy.Policy
	// Wrong is why the NodePolicy does not count; nil: it does.
	Wrong error
	// Copy is the key of ConfigMap [store.AcceptedName] that holds the policy where the NodePolicy does not count. It is empty for the default.
	Copy string
	// Spoiled reports that there are copies, and none of them can be used. The default is in force.
	Spoiled bool
	// Generation is that of the NodePolicy which is in force; 0: none is.
	Generation int64
	// UID is that of this NodePolicy.
	UID string

	status v1alpha1.NodePolicyStatus
}

// ErrNoNodePolicy reports that there is no NodePolicy.
var ErrNoNodePolicy = errors.New("there is no NodePolicy default")

// PolicyInForceOf decides as a process that starts does. It goes by the NodePolicy in JSON, nil if there is none, and by what was accepted. Both are
// what clients wrote, so a panic over one is an error of it.
func PolicyInForceOf(object []byte, accepted map[string]string, gate policy.Gate) PolicyInForce {
	wrong := ErrNoNodePolicy
	if object != nil {
		p, err := loaded(object, gate)
		if err == nil {
			return PolicyInForce{Policy: p}.followed(object)
		}
		wrong = err
	}
	spoiled := false
	for _, key := range []string{store.AcceptedPolicy, store.AcceptedBefore} {
		if text, ok := accepted[key]; ok {
			spoiled = true
			if p, err := loaded([]byte(text), gate); err == nil {
				return PolicyInForce{Policy: p, Wrong: wrong, Copy: key}
			}
		}
	}
	return PolicyInForce{Policy: policy.Default().WithGate(gate), Wrong: wrong, Spoiled: spoiled}
}

func loaded(manifest []byte, gate policy.Gate) (p policy.Policy, err error) {
	err = contain.Call(func() (err error) {
		p, err = policy.LoadObject(manifest, gate)
		return err
	})
	return p, err
}

// longestTrouble bounds what a sentence quotes of an error: a client wrote what is wrong.
const longestTrouble = 300

// Briefly returns why a manifest cannot be used, in one line: its first error, and how many more there are.
func Briefly(err error) string {
	var errs policy.FileErrors
	if !errors.As(err, &errs) || len(errs) == 0 {
		return oneLine(err.Error())
	}
	text := oneLine(errs[0].What)
	if more := len(errs) - 1; more > 0 {
		text += fmt.Sprintf(" (and %s, which nodekeep policy check names)", Counted(more, "more error"))
	}
	return text
}

func oneLine(text string) string {
	if len(text) > longestTrouble {
		text = policy.Shortened(text, longestTrouble) + "..."
	}
	return strings.Join(strings.Fields(text), " ")
}

// Default reports that there is no NodePolicy and none was accepted: all is as at first.
func (in PolicyInForce) Default() bool {
	return errors.Is(in.Wrong, ErrNoNodePolicy) && in.Copy == "" && !in.Spoiled
}

// Instead returns what is in force where the NodePolicy does not count.
func (in PolicyInForce) Instead() string {
	switch {
	case in.Spoiled:
		return "what was accepted before cannot be used either, so the default policy is in force (ConfigMap " + store.AcceptedName + ")"
	case in.Copy == "":
		return "none was accepted before, so the default policy is in force"
	}
	return "what was accepted last stays in force (key " + in.Copy + " of ConfigMap " + store.AcceptedName + ")"
}

// followed returns the policy with what its NodePolicy in JSON says of those who follow it. Any client that may write the status can write anything there,
// so what cannot be read counts as nothing.
func (in PolicyInForce) followed(object []byte) PolicyInForce {
	var found struct {
		Metadata struct {
			Generation int64  `json:"generation"`
			UID        string `json:"uid"`
		} `json:"metadata"`
		Status struct {
			Followers map[string]json.RawMessage `json:"followers"`
			Held      *v1alpha1.HeldRules        `json:"held"`
		} `json:"status"`
	}
	_ = json.Unmarshal(object, &found) // it reads what it can
	in.Generation, in.UID, in.status.Held, in.status.Followers = found.Metadata.Generation, found.Metadata.UID, found.Status.Held, map[string]int64{}
	for pod, text := range found.Status.Followers {
		if generation, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			in.status.Followers[pod] = generation
		}
	}
	return in
}

// Behind returns the Pods of nodekeep, of these, that are Ready and have not read this generation of the NodePolicy. A NodePolicy that is created anew
// begins with an empty status.
func (in PolicyInForce) Behind(pods []corev1.Pod) []string {
	if in.Generation == 0 {
		return nil
	}
	var ready []string
	for i := range pods {
		if follows(&pods[i]) && Ready(&pods[i]) {
			ready = append(ready, pods[i].Name)
		}
	}
	return in.status.Behind(in.Generation, ready)
}

// Ready reports whether a Pod is Ready, and is not being deleted.
func Ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// follows reports whether a Pod is one of a process that follows the NodePolicy.
func follows(pod *corev1.Pod) bool {
	return slices.Contains([]string{"webhook", "capture", "verify"}, pod.Labels["app.kubernetes.io/component"])
}

// Doubtful reports whether the status leaves it open that every process follows this generation. It names no Pod that follows any, or it says of one
// that it follows another. That Pod may be deleted by now.
func (in PolicyInForce) Doubtful() bool {
	if in.Generation == 0 {
		return false
	}
	for _, generation := range in.status.Followers {
		if generation != in.Generation {
			return true
		}
	}
	return len(in.status.Followers) == 0
}

// maxBehind is how many Pods are named that have not read the policy.
const maxBehind = 3

// BehindSentence says which Pods have not read the policy.
func (in PolicyInForce) BehindSentence(behind []string) string {
	named := strings.Join(behind[:min(len(behind), maxBehind)], ", ")
	if more := len(behind) - maxBehind; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("Not read yet by %s: the policy's generation %d.", named, in.Generation)
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
func (in PolicyInForce) HeldUntil(accepted string) string {
	rules := in.Policy.RulesHash()
	switch held := in.status.Held; {
	case in.Policy.AcceptsRules(), accepted == rules:
		return "until capture carries out that they were accepted, within a minute"
	case held != nil && held.Rules == rules:
		for _, m := range in.Policy.Migrations() {
			if m.Phase == policy.MigrateNew {
				return "until nodekeep migrate new " + m.From + "=" + m.To
			}
		}
		return "until nodekeep policy accept " + rules
	}
	return "until capture has counted on how many Nodes they remove or change labels, within a minute; then it puts them in force, or holds them"
}
