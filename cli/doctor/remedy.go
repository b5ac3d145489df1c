package doctor

import (
	"cmp"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/manifests"
)

func newRemedy(text string, commands ...string) Remedy { return Remedy{Text: text, Commands: commands} }

// What Helm writes on each object of a release.
const (
	managedBy        = "app.kubernetes.io/managed-by"
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

// release is the Helm release of an installation. Its fields are empty where objects name none that can exist.
type release struct{ name, namespace string }

// validName matches names that a release or a namespace can have. Other names are not shown in commands.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// maxReleaseName is how long the name of a release may be.
const maxReleaseName = 53

// helmRelease returns the release that objects of the installation belong to; ok reports whether Helm installed them.
func (s Installation) helmRelease() (r release, ok bool) {
	for _, object := range s.ComparedObjects {
		if !object.Live.Found || object.Live.Value.GetLabels()[managedBy] != "Helm" {
			continue
		}
		ok = true
		if r = releaseOf(object.Live.Value); r != (release{}) {
			return r, ok
		}
	}
	return r, ok
}

// releaseOf returns the release that an object names, if there can be such a one.
func releaseOf(object *unstructured.Unstructured) release {
	r := release{object.GetAnnotations()[releaseName], object.GetAnnotations()[releaseNamespace]}
	if len(r.name) > maxReleaseName || !validName.MatchString(r.name) || !validName.MatchString(r.namespace) {
		return release{}
	}
	return r
}

// upgradeCommand returns a command that installs the release anew with the values of its file. There is none where no release is known.
func (r release) upgradeCommand() (commands []string) {
	if r.name == "" {
		return nil
	}
	return []string{"helm upgrade " + r.name + " manifests/chart --namespace " + r.namespace + " --reset-values --values values.yaml"}
}

// upgradeCommand returns the helm upgrade of this installation; empty: it is no release.
func (s Installation) upgradeCommand() []string {
	r, _ := s.helmRelease()
	return r.upgradeCommand()
}

// reinstallRemedy puts back what the manifests hold.
func (s Installation) reinstallRemedy() Remedy {
	if r, ok := s.helmRelease(); ok {
		return newRemedy("Run helm upgrade again, in a checkout of the installed version:", r.upgradeCommand()...)
	}
	return newRemedy("Apply again what nodekeep was installed from (or run helm upgrade):",
		"kubectl apply --server-side -f manifests/namespace.yaml -f manifests/crd.yaml", "kubectl apply --server-side -f manifests/nodekeep.yaml")
}

// reapplyRemedy is for an object that was changed: the API server names a conflict with who has changed it.
func (s Installation) reapplyRemedy() Remedy {
	if r, ok := s.helmRelease(); ok {
		return newRemedy("Run helm upgrade again, in a checkout of the installed version. If it reports a conflict, copy the change into the values, or undo it:",
			r.upgradeCommand()...)
	}
	return newRemedy("Apply again what nodekeep was installed from (or run helm upgrade). If kubectl reports a conflict, --force-conflicts sets the shipped values:",
		s.reinstallRemedy().Commands...)
}

// reinstallVerify puts back what belongs to verification. The other manifests contain nothing of it.
func (s Installation) reinstallVerify() Remedy {
	if r, ok := s.helmRelease(); ok {
		return newRemedy("Set verify.enabled to true in values.yaml, and run helm upgrade, in a checkout of the installed version:", r.upgradeCommand()...)
	}
	return newRemedy("Apply again what verification was installed from: helm upgrade with verify.enabled=true.")
}

// scaleUpRemedy is for a process whose Deployment is scaled to nothing. With Helm the number is a value, which the next upgrade sets again.
func (s Installation) scaleUpRemedy(component, object string) Remedy {
	replicas, found, err := unstructured.NestedInt64(s.object(object).Shipped.Object, "spec", "replicas")
	if err != nil || !found {
		replicas = 2
	}
	if r, ok := s.helmRelease(); ok {
		return newRemedy(fmt.Sprintf("Scale it up again: set %s.replicas to %d in values.yaml, and run helm upgrade:", component, replicas), r.upgradeCommand()...)
	}
	return newRemedy("Scale it up again:", s.kubectl("scale %s --replicas=%d", object, replicas))
}

// nothingInstalled reports whether it is known that nodekeep is not installed: nothing exists but what an uninstallation leaves.
func (s Installation) nothingInstalled() bool {
	for _, object := range s.ComparedObjects {
		if object.Live.Found && object.Name() != crdObject {
			return false
		}
	}
	for _, name := range []string{mutatingObject, validatingObject, webhookObject, captureObject} {
		if !s.object(name).Live.Absent {
			return false
		}
	}
	return true
}

// otherNamespace is another namespace that the webhook configurations name, where no Deployment is in this one; else it is empty.
func (s Installation) otherNamespace() string {
	if !s.object(webhookObject).Live.Absent || !s.object(captureObject).Live.Absent {
		return ""
	}
	for _, hook := range s.hooks() {
		if service := hook.client.Service; service != nil && service.Namespace != s.Namespace {
			return service.Namespace
		}
	}
	return ""
}

// installRemedy installs nodekeep.
func (s Installation) installRemedy() Remedy {
	namespace := cmp.Or(s.Namespace, manifests.Namespace)
	return newRemedy("Install it, in a checkout. values.yaml has the repository of your image (image.repository):",
		"helm install nodekeep manifests/chart --namespace "+namespace+" --create-namespace --values values.yaml --wait")
}

// programName matches where the name of the program begins in a command line.
var programName = regexp.MustCompile(`(^|\| )nodekeep `)

// inNamespace returns a remedy whose commands of nodekeep are for this installation, where its namespace is not the default one.
func (s Installation) inNamespace(remedy Remedy) Remedy {
	if s.Namespace == "" || s.Namespace == manifests.Namespace {
		return remedy
	}
	commands := remedy.Commands
	remedy.Commands = nil
	for _, command := range commands {
		if programName.MatchString(command) {
			command += " -n " + s.Namespace
		}
		remedy.Commands = append(remedy.Commands, command)
	}
	return remedy
}

// fixFirst returns the remedy to correct first what another check has found.
func fixFirst(check string) Remedy { return newRemedy("Correct first what " + check + " has found.") }

// kubectl returns a command in the release namespace.
func (s Installation) kubectl(command string, args ...any) string {
	return "kubectl -n " + s.Namespace + " " + fmt.Sprintf(command, args...)
}

// logsCommand shows what a process says.
func (s Installation) logsCommand(deployment string) string {
	return s.kubectl("logs deployment/%s --tail=50", deployment)
}

// podsCommand shows what becomes of the pods of a process.
func (s Installation) podsCommand(component string) string {
	return s.kubectl("describe pods -l %s,%s=%s", PodSelector, ComponentLabel, component)
}
