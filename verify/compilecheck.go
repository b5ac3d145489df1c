package verify

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checks checks the checks of a profile, and returns them with their defaults.
func (c *compiler) checks(list []Check, timeout time.Duration, path *field.Path) []Check {
	if len(list) > MaxChecks {
		c.errs = append(c.errs, field.TooMany(path, len(list), MaxChecks))
		return nil
	}
	names, containers, requires := sets.New[string](), 0, false
	checks := make([]Check, 0, len(list))
	for i, check := range list {
		in := path.Index(i)
		c.name(check.Name, names, in.Child("name"))
		if check.Name == Worker {
			c.invalid(in.Child("name"), check.Name, "is the name of the worker's own container")
		}
		switch kinds := check.kinds(); {
		case len(kinds) == 0:
			c.required(in, "says what to check with one of "+kindNames(Kinds()))
		case len(kinds) > 1:
			c.errs = append(c.errs, field.Forbidden(in, "one check is of one kind, not of several: "+kindNames(kinds)))
		}
		if check.Container != nil {
			containers++
		}
		requires = requires || check.IsRequired()
		checks = append(checks, c.check(check, timeout, in))
	}
	if len(list) > 0 && !requires {
		c.invalid(path, "required: false", "at least one check must be required: without one, every Node would pass")
	}
	if containers > MaxContainers {
		c.errs = append(c.errs, field.Forbidden(path, fmt.Sprintf("has %d container checks; a profile has %d at most", containers, MaxContainers)))
	}
	c.runtimeClasses(list, path)
	if text, err := json.Marshal(checks); err != nil || len(text) > MaxCheckBytes {
		c.errs = append(c.errs, field.TooLong(path, "", MaxCheckBytes))
	}
	return checks
}

// check checks one check, and returns it with its defaults.
func (c *compiler) check(check Check, timeout time.Duration, path *field.Path) Check {
	check.Required = new(check.IsRequired())
	check.Timeout = c.checkTimeout(check.Timeout, timeout, path.Child("timeout"))
	for _, slot := range check.slots() {
		slot.detach()
		if question := slot.question(); question != nil {
			question.compile(c, path.Child(slot.kind().Name))
		}
	}
	return check
}

// checkTimeout checks the timeout of a check. One that is the profile's is written as none, so that the hash of the checks is the same.
func (c *compiler) checkTimeout(text string, ofProfile time.Duration, path *field.Path) string {
	if text == "" {
		return ""
	}
	switch timeout := c.duration(&text, "5s", time.Second, maxTimeout, path); {
	case timeout > ofProfile && timeout <= maxTimeout && ofProfile >= time.Second:
		c.invalid(path, text, "must not be longer than the timeout of the profile, "+WrittenDuration(ofProfile))
	case timeout == ofProfile:
		return ""
	}
	return text
}
