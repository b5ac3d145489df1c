package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Default returns a policy that says nothing. It keeps everything except what other components own. A label that the Node brings wins. Protected
// labels are restored by capture. Records of deleted Nodes are kept for 30 days.
func Default() Policy {
	p, _ := defaultSpec().policy(DefaultGate)
	return p
}

// Load reads the manifest of a NodePolicy. Its Nodes wait behind the gate, whose key must be a valid taint key. Fields that are left out are as in
// [Default]. It is strict: unknown and repeated fields and a second YAML document are errors. The error is [FileErrors]; the Policy that
// comes with an error is the zero Policy and not to be used.
func Load(data []byte, gate Gate) (Policy, error) {
	m, mistyped, strict, err := readManifest(data)
	if err != nil {
		return Policy{}, located(data, err)
	}
	p, invalid := m.Spec.policy(gate)
	invalid = slices.Concat(
		oneOf(field.NewPath("apiVersion"), m.APIVersion, apiVersion),
		oneOf(field.NewPath("kind"), m.Kind, kind),
		oneOf(field.NewPath("metadata", "name"), m.name(), name),
		invalid,
	)
	wrong := sets.New[string]()
	for _, e := range mistyped {
		wrong.Insert(e.Field)
	}
	invalid = slices.DeleteFunc(invalid, func(e *field.Error) bool {
		return standsIn(e.Field, wrong) || e.Type == field.ErrorTypeRequired && holds(e.Field, wrong)
	})
	for _, e := range slices.Concat(mistyped, invalid) {
		strict = append(strict, e)
	}
	if len(strict) > 0 {
		return Policy{}, located(data, strict...)
	}
	return p, nil
}

// LoadObject is [Load] for an object as the API server has it, in JSON. Its errors have no lines.
func LoadObject(data []byte, gate Gate) (Policy, error) {
	p, err := Load(data, gate)
	var errs FileErrors
	if errors.As(err, &errs) {
		for i := range errs {
			errs[i].Line = 0
		}
	}
	return p, err
}

// standsIn reports whether a field, or one around it, holds a value of a wrong type. Then the checked value is not the user's.
func standsIn(path string, wrong sets.Set[string]) bool {
	for path != "" && !wrong.Has(path) {
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return path != ""
}

// holds reports whether a field has another one directly in it that has a value of a wrong type. What it seems to lack may be that one.
func holds(path string, wrong sets.Set[string]) bool {
	for field := range wrong {
		if name, ok := strings.CutPrefix(field, path+"."); ok && !strings.ContainsAny(name, ".[") {
			return true
		}
	}
	return false
}

// policy returns what the spec says, and errs is all that is wrong with it.
func (f Spec) policy(gate Gate) (p Policy, errs field.ErrorList) {
	root := field.NewPath("spec")
	labels, taints := root.Child("labels"), root.Child("taints")
	p = Policy{
		labels:         section{name: "labels", keep: f.Labels.Keep, ignore: f.Labels.Ignore, catalogue: labelCatalogue()},
		taints:         section{name: "taints", keep: f.Taints.Keep, ignore: f.Taints.Ignore, catalogue: newCatalogue(nil, taintOwners(), nil, nil)},
		ends:           newCatalogue(nil, taintEnds(), nil, nil),
		deferred:       f.Labels.Defer,
		ignoreManagers: f.Labels.IgnoreManagers,
		operators:      f.Labels.Operators,
		onConflict:     f.Labels.OnConflict,
		protected:      f.Labels.Protected,
		cordon:         f.Cordon,
		onMismatch:     f.Machine.OnMismatch,
		follow:         f.Machine.Follow,
		gate:           gate,
		spec:           &f,
	}
	errs = slices.Concat(
		p.labels.keep.validate(labels.Child("keep")),
		p.labels.ignore.validate(labels.Child("ignore")),
		p.deferred.validate(labels.Child("defer")),
		oneOf(labels.Child("onConflict"), p.onConflict, KeepNode, RestoreStored),
		oneOf(labels.Child("protected"), p.protected, Deferred, Inline, NeverProtected),
		oneOf(root.Child("cordon"), p.cordon, IgnoreCordon, KeepCordon),
		oneOf(root.Child("machine", "onMismatch"), p.onMismatch, RestoreAnyway, Quarantine, Forget),
		p.taints.keep.validate(taints.Child("keep")),
		p.taints.ignore.validate(taints.Child("ignore")),
		p.readManagers(labels),
	)
	retention, wrong := ParseRetention(string(f.Retention))
	if wrong != "" {
		errs = append(errs, field.Invalid(root.Child("retention"), string(f.Retention), wrong))
	}
	p.retention = retention
	// From here on, what is read may need what was read before.
	errs = append(errs, p.readTaints(f.Taints, taints)...)
	errs = append(errs, p.readLabelRules(f.Labels.Rules, labels.Child("rules"))...)
	errs = append(errs, p.readInventory(f.Inventory, f.Labels.Rules, root.Child("inventory"), labels.Child("rules"))...)
	errs = append(errs, p.readVerification(f.Verify, root.Child("verify"))...)
	errs = append(errs, p.readGovernance(f.Governance, root.Child("governance"), f.Labels.Rules, labels.Child("rules"))...)
	errs = append(errs, p.readAnnotations(f.Annotations, root.Child("annotations"))...)
	errs = append(errs, p.readMigrations(f.Labels.Migrations, labels.Child("migrations"))...)
	p.migrations = f.Labels.Migrations
	p.rulesHash = hashOf(f.Labels.Rules, p.migrations)
	p.accept = f.Accept
	if f.Accept != "" && !isHash(f.Accept) {
		errs = append(errs, field.Invalid(root.Child("accept"), f.Accept, "must be the hash of rules and migrations, as status.held names it"))
	}
	p.labelRules = p.labelRules.Copying(copies(p.migrations))
	return p, errs
}

// unquoted returns a JSON value, without the quotes of a string.
func unquoted(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) != nil || text == nil {
		return string(raw)
	}
	return *text
}

// oneOf checks a field that has a few right values.
func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

// shortestRetention is longer than a machine takes to restart: less would forget Nodes that are about to register again.
const shortestRetention = 10 * time.Minute

// ParseRetention reads how long a record is kept, in the format of the policy file. If the text is invalid, wrong says why.
func ParseRetention(text string) (retention time.Duration, wrong string) {
	retention, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, "must be a duration in h, m and s, such as 720h, or 0 for ever"
	case retention < 0:
		return 0, "must not be negative; 0 keeps records for ever"
	case retention > 0 && retention < shortestRetention:
		return 0, "must not be shorter than 10m, or Nodes that only restart would be forgotten; 0 keeps records for ever"
	}
	return retention, ""
}
