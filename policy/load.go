package policy

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What the policy file must say of itself.
const (
	apiVersion = "nodekeep.dev/v1alpha1"
	kind       = "Policy"
)

// file is the policy file. Its leaves stay raw so that a mistake in one hides no mistake in another.
type file struct {
	APIVersion json.RawMessage `json:"apiVersion"`
	Kind       json.RawMessage `json:"kind"`
	Labels     json.RawMessage `json:"labels"`
	Taints     json.RawMessage `json:"taints"`
	Machine    json.RawMessage `json:"machine"`
	Retention  json.RawMessage `json:"retention"`
}

type fileLabels struct {
	Keep           json.RawMessage `json:"keep"`
	Ignore         json.RawMessage `json:"ignore"`
	Defer          json.RawMessage `json:"defer"`
	IgnoreManagers json.RawMessage `json:"ignoreManagers"`
	OnConflict     json.RawMessage `json:"onConflict"`
	Protected      json.RawMessage `json:"protected"`
}

type fileMachine struct {
	OnMismatch json.RawMessage `json:"onMismatch"`
}

// Default is the policy without a file: everything is kept but what other components own, a label that the Node
// brings wins, protected labels are given back by capture, and Nodes that are gone are remembered for 30 days.
func Default() Policy {
	p := Policy{
		ignoreManagers: []string{"kubelet", "k3s*", "rke2*", "kubelite", "*cloud-controller-manager", "nfd-master"},
		onConflict:     KeepNode,
		protected:      Deferred,
		onMismatch:     RestoreAnyway,
		retention:      defaultRetention,
		taints:         defaultTaints(),
		gate:           DefaultGate,
	}
	p.keep.add("*", "*")
	for _, entry := range catalogue() {
		p.owned.add(entry.pattern, entry.owner)
	}
	for _, entry := range forPeople() {
		p.forPeople.add(entry.pattern, entry.owner)
	}
	return p
}

// Load reads a policy file for Nodes that wait behind the gate, whose key must be a valid taint key. What the file does
// not say is as in [Default]. It is strict: unknown and repeated fields and a second YAML document are errors. The error
// names every mistake at once, each with its field path; the Policy that comes with an error is the zero Policy and not
// to be used.
func Load(data []byte, gate Gate) (Policy, error) {
	raw, mistakes, err := fromYAML(data)
	if err != nil {
		return Policy{}, fmt.Errorf("read policy: %w", err)
	}
	var f file
	var labels fileLabels
	var taints fileTaints
	var machine fileMachine
	mistakes = append(mistakes, section(raw, nil, &f)...)
	mistakes = append(mistakes, section(f.Labels, field.NewPath("labels"), &labels)...)
	mistakes = append(mistakes, section(f.Taints, field.NewPath("taints"), &taints)...)
	mistakes = append(mistakes, section(f.Machine, field.NewPath("machine"), &machine)...)
	var wrong field.ErrorList
	p := f.policy(labels, machine, &wrong).WithGate(gate)
	var strict []error
	p.taints, strict = taints.taintPolicy(gate, &wrong)
	mistakes = append(mistakes, strict...)
	for _, mistake := range wrong {
		mistakes = append(mistakes, mistake)
	}
	if len(mistakes) > 0 {
		return Policy{}, fmt.Errorf("read policy: %w", errors.Join(mistakes...))
	}
	return p, nil
}

func (f file) policy(l fileLabels, m fileMachine, mistakes *field.ErrorList) Policy {
	p := Default()
	labels := field.NewPath("labels")
	mustBe(f.APIVersion, field.NewPath("apiVersion"), apiVersion, mistakes)
	mustBe(f.Kind, field.NewPath("kind"), kind, mistakes)
	if keep, set := keyPatterns(l.Keep, labels.Child("keep"), mistakes); set {
		p.keep, p.named = patternSet{}, keep
		for _, pattern := range keep {
			p.keep.add(pattern, pattern)
		}
	}
	ignore, _ := keyPatterns(l.Ignore, labels.Child("ignore"), mistakes)
	for _, pattern := range ignore {
		p.ignore.add(pattern, pattern)
	}
	deferred, _ := keyPatterns(l.Defer, labels.Child("defer"), mistakes)
	for _, pattern := range deferred {
		p.deferred.add(pattern, pattern)
	}
	if managers, set := list(l.IgnoreManagers, labels.Child("ignoreManagers"), mistakes); set {
		p.ignoreManagers = managers
	}
	p.onConflict = oneOf(l.OnConflict, labels.Child("onConflict"), p.onConflict, []OnConflict{KeepNode, RestoreStored}, mistakes)
	p.protected = oneOf(l.Protected, labels.Child("protected"), p.protected, []Protected{Deferred, Inline, Never}, mistakes)
	p.onMismatch = oneOf(m.OnMismatch, field.NewPath("machine", "onMismatch"), p.onMismatch, []OnMismatch{RestoreAnyway, Quarantine}, mistakes)
	p.retention = readRetention(f.Retention, field.NewPath("retention"), mistakes)
	return p
}
