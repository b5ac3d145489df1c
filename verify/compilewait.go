package verify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/quantity"
)

func (c *compiler) wait(wait Wait, at *field.Path) (Wait, corev1.ResourceList) {
	wait.Conditions = slices.Clone(wait.Conditions)
	if !c.tooMany(len(wait.Conditions), at.Child("conditions")) {
		types := sets.New[string]()
		for i := range wait.Conditions {
			c.condition(&wait.Conditions[i], types, at.Child("conditions").Index(i))
		}
	}
	if !c.tooMany(len(wait.DaemonSets), at.Child("daemonSets")) {
		for i, name := range wait.DaemonSets {
			if name == AutoDaemonSets {
				continue
			}
			c.namespaced(name, func(name string) []string {
				if name == "*" {
					return nil
				}
				return validation.IsDNS1123Subdomain(name)
			}, at.Child("daemonSets").Index(i))
		}
	}
	return wait, c.resources(wait.Allocatable, at.Child("allocatable"))
}

// onlyWaits checks a profile without checks.
func (c *compiler) onlyWaits(profile Profile, at *field.Path) {
	if !profile.Wait.holdsBack() {
		c.required(at.Child("checks"), "a profile asks at least one check, or has an item in wait that must hold; a condition with ifMissing: pass is none")
	}
	if profile.OnFailure != KeepNode {
		c.errs = append(c.errs, field.Forbidden(at.Child("onFailure"), "needs checks: a profile that only waits fails no Node"))
	}
	if profile.Reverify != Never {
		c.errs = append(c.errs, field.Forbidden(at.Child("reverify"), "needs checks: conditions from before a reboot stay on the Node until their component writes them again"))
	}
}

// holdsBack reports whether every new Node waits: not only for conditions that it may lack.
func (w Wait) holdsBack() bool {
	return len(w.DaemonSets) > 0 || len(w.Allocatable) > 0 ||
		slices.ContainsFunc(w.Conditions, func(condition WaitCondition) bool { return condition.IfMissing != PassIfMissing })
}

func (c *compiler) condition(condition *WaitCondition, before sets.Set[string], at *field.Path) {
	c.unique(condition.Type, before, at.Child("type"), "as in the status of the Node: kubectl describe node", validation.IsQualifiedName)
	if condition.Type == Condition {
		c.invalid(at.Child("type"), condition.Type, "is what verification itself sets: the Node would wait for ever")
	}
	oneOf(c, at.Child("status"), condition.Status, string(corev1.ConditionTrue), string(corev1.ConditionFalse), string(corev1.ConditionUnknown))
	condition.IfMissing = oneOf(c, at.Child("ifMissing"), cmp.Or(condition.IfMissing, WaitIfMissing), WaitIfMissing, PassIfMissing)
}

// namespaced checks NAMESPACE/NAME.
func (c *compiler) namespaced(text string, valid func(string) []string, at *field.Path) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		c.invalid(at, text, "must be NAMESPACE/NAME")
		return
	}
	c.invalidPart(at, text, "namespace", validation.IsDNS1123Label(namespace))
	c.invalidPart(at, text, "name", valid(name))
}

// resources reads quantities of resources.
func (c *compiler) resources(of map[string]Quantity, at *field.Path) corev1.ResourceList {
	if c.tooMany(len(of), at) {
		return nil
	}
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if wrong := quantity.WrongName(name); wrong != "" {
			c.invalid(at.Key(name), name, wrong)
		}
		amount, err := quantity.Parse(string(of[name]))
		switch {
		case err != nil:
			c.invalid(at.Key(name), string(of[name]), `must be a quantity, such as 1, 500m or 64Gi`)
		case amount.Sign() <= 0:
			c.invalid(at.Key(name), string(of[name]), "must be more than 0")
		case quantity.IsExtended(name) && !quantity.IsWhole(amount):
			c.invalid(at.Key(name), string(of[name]), "must be a whole number: the resource is not one that Kubernetes divides")
		default:
			list[corev1.ResourceName(name)] = amount
		}
	}
	return list
}
