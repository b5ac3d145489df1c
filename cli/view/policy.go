package view

import (
	"errors"
	"fmt"
	"strings"

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
			return PolicyInForce{Policy: p}
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

// Briefly is why a manifest cannot be used, in one line: its first error, and how many more there are.
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

// Instead is what is in force where the NodePolicy does not count.
func (in PolicyInForce) Instead() string {
	switch {
	case in.Spoiled:
		return "what was accepted before cannot be used either, so the default policy is in force (ConfigMap " + store.AcceptedName + ")"
	case in.Copy == "":
		return "none was accepted before, so the default policy is in force"
	}
	return "what was accepted last stays in force (key " + in.Copy + " of ConfigMap " + store.AcceptedName + ")"
}
