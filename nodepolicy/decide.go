package nodepolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/policy"
)

// What a manifest of a NodePolicy says of itself; there is one object, of this name.
const (
	apiVersion = "nodekeep.dev/v1alpha1"
	kind       = "NodePolicy"
	name       = "default"
)

// origin is where a policy comes from.
type origin int

const (
	nowhere  origin = iota // the defaults
	accepted               // a copy of a NodePolicy that was accepted
	object                 // the NodePolicy
)

// ruling is which policy is in force, and why.
type ruling struct {
	policy   policy.Policy
	from     origin
	manifest []byte // what the policy was made of; nil: the defaults
	trouble  error  // why the policy is not what the NodePolicy says; nil: it is, or nothing was ever accepted
	unusable bool   // none of the copies that there are can be used
}

// stopgap reports whether the defaults are in force only because no policy that there may be can be used.
func (r ruling) stopgap() bool { return r.from == nowhere && (r.trouble != nil || r.unusable) }

// loader makes a policy of a manifest. An error means that it cannot be used.
type loader func(manifest []byte) (policy.Policy, error)

// findings are what a process finds that has no policy yet.
type findings struct {
	manifest []byte   // of the NodePolicy
	err      error    // why there is none
	accepted [][]byte // copies of the policies that were accepted last, the newest first
}

// first decides which policy a process begins with: the NodePolicy's, else the last one that was accepted, else the defaults. It decides nothing while
// there may be a NodePolicy, and nothing was accepted before.
func first(found findings, load loader, defaults policy.Policy) (r ruling, decided bool) {
	if found.err == nil {
		p, err := load(found.manifest)
		if err == nil {
			return ruling{policy: p, from: object, manifest: found.manifest}, true
		}
		r.trouble = err
	}
	r.policy = defaults
	for _, copied := range found.accepted {
		if p, err := load(copied); err == nil {
			r.policy, r.from, r.manifest = p, accepted, copied
			break
		}
	}
	r.unusable = r.from == nowhere && len(found.accepted) > 0
	if found.err == nil {
		return r, true
	}
	return r.whenAbsent(found.err), r.from == accepted || apierrors.IsNotFound(found.err) || apierrors.IsForbidden(found.err)
}

// next decides on a NodePolicy that has changed. It returns the same policy if the manifest is the one in force.
func (r ruling) next(manifest []byte, load loader) (next ruling, changed bool) {
	if r.manifest != nil && bytes.Equal(r.manifest, manifest) {
		r.from, r.trouble = object, nil
		return r, false
	}
	p, err := load(manifest)
	if err != nil {
		r.trouble = err
		return r, false
	}
	return ruling{policy: p.WithPredecessor(r.policy), from: object, manifest: manifest}, true
}

// whenAbsent decides while there is no NodePolicy for that reason.
func (r ruling) whenAbsent(err error) ruling {
	switch {
	case r.from == nowhere && apierrors.IsNotFound(err):
		r.trouble = nil
	case apierrors.IsNotFound(err):
		r.trouble = fmt.Errorf("%w; that changes nothing: what was accepted last stays in force. An empty spec returns to the defaults", err)
	default:
		r.trouble = fmt.Errorf("NodePolicy %s cannot be read: %w", name, err)
	}
	return r
}

// answered reports whether an error is the API server's word on the object. Any other error may pass.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	for _, passes := range []func(error) bool{
		apierrors.IsServerTimeout, apierrors.IsTimeout, apierrors.IsTooManyRequests, apierrors.IsServiceUnavailable, apierrors.IsUnauthorized,
	} {
		if passes(err) {
			return false
		}
	}
	return true
}

// manifestOf returns what a user says in an object of the API server: its name and its spec. Other metadata and the status are left out. Equal specs
// have equal manifests.
func manifestOf(content map[string]any) ([]byte, error) {
	manifest := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}
	if spec, ok := content["spec"]; ok {
		manifest["spec"] = spec
	}
	encoded, err := json.Marshal(manifest)
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return encoded, nil
}

// Declaration is what is known of the two objects that declare an emergency.
type Declaration struct {
	Bound   bool // the RoleBinding gives the Role to capture's account
	Granted bool // the Role has the right that declares an emergency
}

// Holds reports whether an emergency is declared. It takes both objects, as it does for the API server, which asks for the right.
func (d Declaration) Holds() bool { return d.Bound && d.Granted }

// captureAccount is the ServiceAccount whose right declares an emergency.
const captureAccount = "nodekeep-capture"

// Binds reports whether a RoleBinding is the one that declares an emergency; nil: there is none. One that waits for a finalizer does, as for the API
// server.
func Binds(binding *rbacv1.RoleBinding) bool {
	return binding != nil && binding.Name == manifests.EmergencyName &&
		binding.RoleRef.Kind == "Role" && binding.RoleRef.Name == manifests.EmergencyName &&
		slices.ContainsFunc(binding.Subjects, func(subject rbacv1.Subject) bool {
			return subject.Kind == rbacv1.ServiceAccountKind && subject.Name == captureAccount && subject.Namespace == binding.Namespace
		})
}

// Grants reports whether a Role has the right that declares an emergency; nil: there is none. One that also has the right to continue declares none: it
// may do everything.
func Grants(role *rbacv1.Role) bool {
	allowed := func(verb string) bool {
		return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			contains := func(all []string, text string) bool { return slices.Contains(all, text) || slices.Contains(all, "*") }
			return contains(rule.APIGroups, Resource().Group) && contains(rule.Resources, "closing") && contains(rule.Verbs, verb) && len(rule.ResourceNames) == 0
		})
	}
	return role != nil && role.Name == manifests.EmergencyName && allowed("stop") && !allowed("continue")
}
