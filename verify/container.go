package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/quantity"
)

// Container runs an image of the user's in the worker Pod, next to the worker. It passes with exit code 0.
type Container struct {
	// The image.
	// +required
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// What runs, in place of the image's entrypoint.
	Command []string `json:"command,omitempty"`
	// Its arguments.
	Args []string `json:"args,omitempty"`
	// Environment variables, by name. They are no place for secrets.
	// +kubebuilder:validation:MaxProperties=20
	Env map[string]string `json:"env,omitempty"`
	// Resources, and how much of each the container may use.
	Limits map[string]Quantity `json:"limits,omitempty"`
	// The RuntimeClass of the whole worker Pod. All container checks of a profile name the same one, or none.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
}

func (*Container) kind() Kind {
	return Kind{
		"container", "the container ends with exit code 0",
		"it runs in the same Pod, under Pod Security `restricted`. It may have `command`, `args`, `limits`, `env` (names and values; no secrets) and `runtimeClassName`",
	}
}

func (container *Container) compile(c *compiler, path *field.Path) {
	switch image := container.Image; {
	case image == "":
		c.required(path.Child("image"), "the image to run on the Node")
	case strings.ContainsFunc(image, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }) || strings.Contains(image, "://"):
		c.invalid(path.Child("image"), image, "must be an image, such as registry.example.com/tests/smi:1.2")
	}
	for _, list := range []struct {
		name  string
		words []string
	}{{"command", container.Command}, {"args", container.Args}} {
		if i := slices.IndexFunc(list.words, func(word string) bool { return strings.ContainsRune(word, 0) }); i >= 0 {
			c.invalid(path.Child(list.name).Index(i), list.words[i], "must not hold the character NUL")
		}
	}
	c.env(container.Env, path.Child("env"))
	if class := container.RuntimeClassName; class != "" {
		c.invalid(path.Child("runtimeClassName"), class, validation.IsDNS1123Subdomain(class)...)
	}
	c.resources(container.Limits, path.Child("limits"))
	for _, name := range slices.Sorted(maps.Keys(container.Limits)) {
		if quantity.IsOfNode(name) {
			c.invalid(path.Child("limits").Key(name), name, "is no resource of a container")
		}
	}
}

func (*Container) needs() Needs { return Needs{} }

func (*Container) answered() answer { return byPod(judgeContainer) }

func (c *compiler) env(env map[string]string, path *field.Path) {
	if c.tooMany(len(env), path) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.invalid(path.Key(name), name, validation.IsEnvVarName(name)...)
		if strings.ContainsRune(env[name], 0) {
			c.invalid(path.Key(name), env[name], "must not hold the character NUL")
		}
	}
}

// runtimeClasses checks that the containers of a Pod name one class: Kubernetes runs all of them with it, and the worker, too.
func (c *compiler) runtimeClasses(checks []Check, path *field.Path) {
	first := ""
	for i, check := range checks {
		if check.Container == nil {
			continue
		}
		if first == "" {
			first = check.Name
		}
		if class, common := check.Container.RuntimeClassName, RuntimeClass(checks); class != common {
			c.errs = append(c.errs, field.Forbidden(path.Index(i).Child("container", "runtimeClassName"), fmt.Sprintf(
				"check %s has %s and check %s has %s, and all containers of the worker Pod have the same", first, orDefault(common), check.Name, orDefault(class))))
		}
	}
}

func orDefault(class string) string { return cmp.Or(class, "the default class") }

// RuntimeClass returns the name of the RuntimeClass of a Pod with these checks; empty: the default one of the Node.
func RuntimeClass(checks []Check) string {
	for i := range checks {
		if checks[i].Container != nil {
			return checks[i].Container.RuntimeClassName // all have the same one
		}
	}
	return ""
}

// containerTimeouts returns the containers of a worker Pod, and how long each may run.
func containerTimeouts(checks []Check, profile CompiledProfile) map[string]time.Duration {
	timeouts := map[string]time.Duration{Worker: profile.Timeout}
	for _, check := range checks {
		if check.Container != nil {
			timeouts[check.Name] = profile.TimeoutOf(check)
		}
	}
	return timeouts
}

// judgeContainer returns the result of a container check.
func judgeContainer(check Check, pod Pod, timeout time.Duration) Result {
	container := pod.container(check.Name)
	took := ran(container)
	late := check.Timeout != "" && took > timeout+time.Second // times of kubelets are whole seconds
	result := Result{Check: check.Name, Required: check.IsRequired(), Outcome: Passed, Millis: int(took.Milliseconds())}
	switch {
	case container.Ended && container.ExitCode == 0 && !late:
	case pod.Reason != "", pod.Ended() && !container.Ended: // evicted, or the Node shut down
		result.Outcome, result.Reason, result.Message = Skipped, "CutOff", "the container did not run to its end"
	case !container.Ended:
		result.Outcome, result.Reason, result.Message = Failed, ReasonTimeout, "the container did not end in time"
	case late:
		result.Outcome, result.Reason, result.Message = Failed, ReasonTimeout, fmt.Sprintf("the container ran for %s, longer than %s", took, timeout)
	default:
		result.Outcome, result.Reason, result.Message = Failed, "ExitCode", fmt.Sprintf("the container ended with exit code %d", container.ExitCode)
	}
	return result
}

// ran returns how long a container ran, as its kubelet says; 0 where that is not known.
func ran(container ContainerState) time.Duration {
	if !container.Ended || container.Started.IsZero() || container.Finished.Before(container.Started) {
		return 0
	}
	return container.Finished.Sub(container.Started)
}
