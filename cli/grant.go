package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/verify"
)

// mostGranted is how many rights outside the shipped roles are granted one by one. More are an administrator's.
const mostGranted = 3

// grantTo returns how an administrator grants rights to a user. It uses the ClusterRoles that nodekeep ships, if they have the rights.
func grantTo(user, release string, missing ...access) doctor.Remedy {
	var bindings, single []string
	more, operator := 0, slices.ContainsFunc(missing, func(a access) bool { return strings.HasPrefix(a.role(release), doctor.Operator) })
	for _, a := range missing {
		role := a.role(release)
		if role == "" {
			more++
			single = append(single, a.grant(user)...)
			continue
		}
		if operator {
			role = strings.Replace(role, doctor.Viewer, doctor.Operator, 1)
		}
		kind, in := "clusterrolebinding", ""
		base, twin := twinOf(role)
		if twin {
			kind, in = "rolebinding", " -n "+a.namespace
		}
		binding := fmt.Sprintf("kubectl create %s %s --clusterrole=%s --user=%s%s", kind, nameFor(base, user), role, quoted(user), in)
		if !slices.Contains(bindings, binding) {
			bindings = append(bindings, binding)
		}
	}
	if more > mostGranted {
		return doctor.Remedy{Text: "This takes more than the ClusterRole " + doctor.Operator + ": it is for an administrator of the cluster."}
	}
	return doctor.Remedy{Text: "An administrator can grant it:", Commands: append(bindings, single...)}
}

// role returns the shipped ClusterRole that has the right; empty where none has, or where it would grant too much.
func (a access) role(release string) string {
	twin := ""
	switch a.namespace {
	case release, verify.Namespace:
		twin = doctor.Namespaced
	case eventsOfNodes:
		twin = doctor.Events
	}
	return doctor.RoleFor(doctor.Right{Verb: a.verb, Group: a.group, Resource: a.resource, Name: a.name, Namespace: a.namespace}, twin)
}

// twinOf returns the role without the end that shows for which namespaces it is, and whether it has one.
func twinOf(role string) (base string, twin bool) {
	for _, end := range []string{doctor.Namespaced, doctor.Events} {
		if base, twin = strings.CutSuffix(role, end); twin {
			return base, true
		}
	}
	return role, false
}

// grant returns the commands that give this right alone to a user.
func (a access) grant(user string) []string {
	kind, in, of := "clusterrole", "", ""
	if a.namespace != "" {
		kind, in = "role", " -n "+a.namespace
	}
	if a.name != "" {
		of = " --resource-name=" + a.name
	}
	name := fmt.Sprintf("nodekeep-%s-%s", a.verb, a.resource)
	return []string{
		fmt.Sprintf("kubectl create %s %s --verb=%s --resource=%s%s%s", kind, name, a.verb, a.fullResource(), of, in),
		fmt.Sprintf("kubectl create %sbinding %s --%s=%s --user=%s%s", kind, nameFor(name, user), kind, name, quoted(user), in),
	}
}

// nameFor returns the name of a binding of a role to a user. The user's name may have characters that an object's name must not have.
func nameFor(role, user string) string {
	return role + "-" + strings.Trim(regexp.MustCompile(`[^a-zA-Z0-9.-]+`).ReplaceAllString(user, "-"), "-.")
}

// quoted returns a word for a shell.
func quoted(word string) string {
	if regexp.MustCompile(`^[\w@:.,/-]+$`).MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
