package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/verify"
)

// The ClusterRoles for users. Each has two variants that are bound in a namespace: -namespaced in the namespaces of nodekeep, and -events in the namespace
// of Events about Nodes.
const (
	viewerRole       = "nodekeep-viewer"
	operatorRole     = "nodekeep-operator"
	namespacedSuffix = "-namespaced"
	eventsSuffix     = "-events"
)

// maxGrantedSingly is how many rights outside the shipped roles are granted one by one. More are an administrator's.
const maxGrantedSingly = 3

// GrantTo returns how an administrator grants rights to a user. It uses the ClusterRoles that nodekeep ships, if they have the rights.
func GrantTo(user, namespace string, missing ...Right) Remedy {
	var bindings, single []string
	unshipped, operator := 0, slices.ContainsFunc(missing, func(a Right) bool { return strings.HasPrefix(a.role(namespace), operatorRole) })
	for _, a := range missing {
		role := a.role(namespace)
		if role == "" {
			unshipped++
			single = append(single, a.grantCommands(user)...)
			continue
		}
		if operator {
			role = strings.Replace(role, viewerRole, operatorRole, 1)
		}
		kind, namespaceFlag := "clusterrolebinding", ""
		base, suffixed := splitSuffix(role)
		if suffixed {
			kind, namespaceFlag = "rolebinding", " -n "+a.Namespace
		}
		binding := fmt.Sprintf("kubectl create %s %s --clusterrole=%s --user=%s%s", kind, nameFor(base, user), role, quoted(user), namespaceFlag)
		if !slices.Contains(bindings, binding) {
			bindings = append(bindings, binding)
		}
	}
	if unshipped > maxGrantedSingly {
		return Remedy{Text: "This takes more than the ClusterRole " + operatorRole + ": it is for an administrator of the cluster."}
	}
	return Remedy{Text: "An administrator can grant it:", Commands: append(bindings, single...)}
}

// role returns the shipped ClusterRole for users that has the right, the one that grants least; empty where none has it, or where it would grant too much.
// Its twin for the namespace of the right, if there is one, comes first, since it is bound in that namespace alone.
func (r Right) role(namespace string) string {
	twin := ""
	switch r.Namespace {
	case namespace, verify.Namespace:
		twin = namespacedSuffix
	case EventsNamespace:
		twin = eventsSuffix
	}
	for _, name := range slices.Compact([]string{viewerRole + twin, viewerRole, operatorRole + twin, operatorRole}) {
		roles, err := manifests.Objects(manifests.Namespace, func(object string) bool { return object == "clusterrole/"+name })
		if err == nil && slices.ContainsFunc(roles, func(role unstructured.Unstructured) bool { return allows(rulesOf(&role), r) }) {
			return name
		}
	}
	return ""
}

// splitSuffix returns the role without the end that shows for which namespaces it is, and whether it has one.
func splitSuffix(role string) (base string, suffixed bool) {
	for _, end := range []string{namespacedSuffix, eventsSuffix} {
		if base, suffixed = strings.CutSuffix(role, end); suffixed {
			return base, true
		}
	}
	return role, false
}

// grantCommands returns the commands that give this right alone to a user.
func (r Right) grantCommands(user string) []string {
	kind, namespaceFlag, target := "clusterrole", "", ""
	if r.Namespace != "" {
		kind, namespaceFlag = "role", " -n "+r.Namespace
	}
	name := fmt.Sprintf("nodekeep-%s-%s", r.Verb, r.Resource)
	if r.Name != "" {
		target = " --resource-name=" + r.Name
		name = nameFor(name, r.Name) // another right of this verb has a role of its own
	}
	return []string{
		fmt.Sprintf("kubectl create %s %s --verb=%s --resource=%s%s%s", kind, name, r.Verb, r.fullResource(), target, namespaceFlag),
		fmt.Sprintf("kubectl create %sbinding %s --%s=%s --user=%s%s", kind, nameFor(name, user), kind, name, quoted(user), namespaceFlag),
	}
}

// nameFor returns the name of a role for one object, or of a binding of a role to a user, whose name may have characters that an object's name must not
// have.
func nameFor(role, name string) string {
	return role + "-" + strings.Trim(regexp.MustCompile(`[^a-zA-Z0-9.-]+`).ReplaceAllString(name, "-"), "-.")
}

// quoted returns a word for a shell.
func quoted(word string) string {
	if regexp.MustCompile(`^[\w@:.,/-]+$`).MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
