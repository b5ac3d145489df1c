package verify

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/quantity"
)

func (c *compiler) wait(wait Wait, path *field.Path) (Wait, corev1.ResourceList) {
	if !c.tooMany(len(wait.Conditions), path.Child("conditions")) {
		for _, name := range slices.Sorted(maps.Keys(wait.Conditions)) {
			c.condition(name, wait.Conditions[name], path.Child("conditions").Key(name))
		}
	}
	if !c.tooMany(len(wait.DaemonSets), path.Child("daemonSets")) {
		for i, name := range wait.DaemonSets {
			if name == AutoDaemonSets {
				continue
			}
			c.namespaced(name, func(name string) []string {
				if name == "*" {
					return nil
				}
				return validation.IsDNS1123Subdomain(name)
			}, path.Child("daemonSets").Index(i))
		}
	}
	return wait, c.resources(wait.Allocatable, path.Child("allocatable"))
}

// onlyWaits checks a profile without checks.
func (c *compiler) onlyWaits(profile Profile, path *field.Path) {
	if !profile.Wait.holdsBack() {
		c.required(path.Child("checks"), "a profile asks at least one check, or has an item in wait that must hold")
	}
	if profile.OnFailure != KeepNode {
		c.errs = append(c.errs, field.Forbidden(path.Child("onFailure"), "needs checks: a profile that only waits fails no Node"))
	}
	if profile.Reverify != NeverReverify {
		c.errs = append(c.errs, field.Forbidden(path.Child("reverify"), "needs checks: conditions from before a reboot stay on the Node until their component writes them again"))
	}
}

// holdsBack reports whether every new Node waits.
func (w Wait) holdsBack() bool { return len(w.DaemonSets)+len(w.Allocatable)+len(w.Conditions) > 0 }

func (c *compiler) condition(name string, status ConditionStatus, path *field.Path) {
	c.invalid(path, name, validation.IsQualifiedName(name)...)
	if name == Condition {
		c.invalid(path, name, "is what verification itself sets: the Node would wait for ever")
	}
	oneOf(c, path, status, ConditionStatus(corev1.ConditionTrue), ConditionStatus(corev1.ConditionFalse), ConditionStatus(corev1.ConditionUnknown))
}

// namespaced checks NAMESPACE/NAME.
func (c *compiler) namespaced(text string, valid func(string) []string, path *field.Path) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		c.invalid(path, text, "must be NAMESPACE/NAME")
		return
	}
	c.invalidPart(path, text, "namespace", validation.IsDNS1123Label(namespace))
	c.invalidPart(path, text, "name", valid(name))
}

// resources reads quantities of resources.
func (c *compiler) resources(quantities map[string]Quantity, path *field.Path) corev1.ResourceList {
	if c.tooMany(len(quantities), path) {
		return nil
	}
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		if wrong := quantity.WrongName(name); wrong != "" {
			c.invalid(path.Key(name), name, wrong)
		}
		amount, err := quantity.Parse(string(quantities[name]))
		switch {
		case err != nil:
			c.invalid(path.Key(name), string(quantities[name]), `must be a quantity, such as 1, 500m or 64Gi`)
		case amount.Sign() <= 0:
			c.invalid(path.Key(name), string(quantities[name]), "must be more than 0")
		case quantity.IsExtended(name) && !quantity.IsWhole(amount):
			c.invalid(path.Key(name), string(quantities[name]), "must be a whole number: the resource is not one that Kubernetes divides")
		default:
			list[corev1.ResourceName(name)] = amount
		}
	}
	return list
}
