package verify

import (
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check is one question that the worker asks on the Node. Exactly one of its kinds is given.
type Check struct {
	// The name, which reports show.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Whether the Node must pass it; true by default. The result of another check is reported only.
	Required *bool `json:"required,omitempty"`
	// How long it takes at most; the profile's timeout by default, which is the longest.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Timeout string `json:"timeout,omitempty"`

	// Resolves names.
	DNS *DNS `json:"dns,omitempty"`
	// Asks the API server, over the ClusterIP of the Service kubernetes, who the worker is.
	API *API `json:"api,omitempty"`
	// Connects to a Service, and to its endpoints on other Nodes.
	Service *Service `json:"service,omitempty"`
	// Connects to an address.
	TCP *TCP `json:"tcp,omitempty"`
	// Asks a URL.
	HTTP *HTTP `json:"http,omitempty"`
	// Runs an image of yours in the worker Pod. It passes with exit code 0.
	Container *Container `json:"container,omitempty"`
	// Has the API server read a log from the kubelet.
	Kubelet *Kubelet `json:"kubelet,omitempty"`
}

// slots returns the fields of all kinds. Names, errors, schema, cold start and docs follow from this list. A kind that lacks a method does not fit in.
func (c *Check) slots() []slot {
	return []slot{
		slotOf(&c.DNS),
		slotOf(&c.API),
		slotOf(&c.Service),
		slotOf(&c.TCP),
		slotOf(&c.HTTP),
		slotOf(&c.Container),
		slotOf(&c.Kubelet),
	}
}

// Asker is a worker: each method asks once, and returns why the answer is not the right one. There is one for each kind that a worker asks. Package
// check implements them, and does not compile while it lacks one.
type Asker interface {
	DNS(asked *DNS) error
	API(asked *API) error
	Service(asked *Service) error
	TCP(asked *TCP) error
	HTTP(asked *HTTP) error
}

// question is what a check of one kind asks. Each kind is a type with these methods, in a file of its own. A kind that lacks a part does not compile.
type question interface {
	// kind names and explains the kind.
	kind() Kind
	// compile reports what is wrong with the fields, and fills in their defaults.
	compile(c *compiler, path *field.Path)
	// needs is what the check needs of the cluster.
	needs() Needs
	// answered is how the check gets its result.
	answered() answer
}

// Kind explains a kind of check. The table of kinds in docs/verification.md has a row for each.
type Kind struct {
	Name   string // that of its field in [Check]
	Passes string // when a check of this kind passes
	Notes  string // what else to know
}

// Kinds returns all kinds of checks.
func Kinds() (kinds []Kind) {
	for _, slot := range new(Check).slots() {
		kinds = append(kinds, slot.kind())
	}
	return kinds
}

// kindNames returns the names of kinds, for a message.
func kindNames(kinds []Kind) string {
	texts := make([]string, len(kinds))
	for i, kind := range kinds {
		texts[i] = kind.Name
	}
	return strings.Join(texts, ", ")
}

// answer is how a check gets its result. Either the worker asks, or the status of its Pod shows the result.
type answer struct {
	ask   func(Asker) error
	judge func(check Check, pod Pod, timeout time.Duration) Result
}

// byWorker returns the answer that the worker gets.
func byWorker(ask func(Asker) error) answer { return answer{ask: ask} }

// byPod returns the answer that a Pod shows once it has ended.
func byPod(judge func(check Check, pod Pod, timeout time.Duration) Result) answer {
	return answer{judge: judge}
}

// slot is the field of one kind in a check.
type slot interface {
	kind() Kind
	question() question // nil: the field is not given
	detach()            // gives the check a copy of the question of its own
}

// questionOf is what the pointer to the type of a kind must be.
type questionOf[T any] interface {
	*T
	question
}

// slotFor is the slot of a kind with the type T.
type slotFor[T any, P questionOf[T]] struct{ field *P }

func slotOf[T any, P questionOf[T]](field *P) slot { return slotFor[T, P]{field} }

func (s slotFor[T, P]) kind() Kind { return P(new(T)).kind() }

func (s slotFor[T, P]) question() question {
	if *s.field == nil {
		return nil
	}
	return *s.field
}

func (s slotFor[T, P]) detach() {
	if *s.field != nil {
		value := **s.field
		*s.field = &value
	}
}

// kinds returns those that are given: one, in a check that was compiled.
func (c Check) kinds() (kinds []Kind) {
	for _, slot := range c.slots() {
		if slot.question() != nil {
			kinds = append(kinds, slot.kind())
		}
	}
	return kinds
}

// question returns what a check asks; nil: it has no kind.
func (c Check) question() question {
	for _, slot := range c.slots() {
		if question := slot.question(); question != nil {
			return question
		}
	}
	return nil
}

// Kind returns what kind of check it is; empty where none is given.
func (c Check) Kind() string {
	if question := c.question(); question != nil {
		return question.kind().Name
	}
	return ""
}

// Needs returns what the check needs of the cluster.
func (c Check) Needs() Needs {
	if question := c.question(); question != nil {
		return question.needs()
	}
	return Needs{}
}

// IsRequired reports whether the verdict depends on the check.
func (c Check) IsRequired() bool { return c.Required == nil || *c.Required }

// ByWorker reports whether the worker asks the check. A check without a kind is one of these: the worker does not know it, and it fails.
func (c Check) ByWorker() bool {
	question := c.question()
	return question == nil || question.answered().ask != nil
}

// Ask has the worker ask a check once that is [Check.ByWorker].
func (c Check) Ask(worker Asker) error {
	question := c.question()
	if question == nil {
		return errors.New("a check of a kind that this worker does not know")
	}
	return question.answered().ask(worker)
}
