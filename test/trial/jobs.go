package trial

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Job is what an operator wants to do: a few steps, one after another.
type Job struct {
	Name  string `json:"job"`
	Steps []Step `json:"steps"`
}

// Step is one thing that an operator types, or that happens to a machine. It has either Run or Kubelet.
type Step struct {
	// Run is a command line for a shell. The PATH has nodekeep, kubectl and helm.
	Run string `json:"run,omitempty"`
	// Kubelet is what happens to the kubelet of the Node node-2: "restarts" is a kubelet that starts again after its Node was deleted.
	Kubelet string `json:"kubelet,omitempty"`
	// Code is the exit code. Says are sentences of what is printed on both outputs, Unsaid are none of them.
	Code   int      `json:"code,omitempty"`
	Says   []string `json:"says,omitempty"`
	Unsaid []string `json:"unsaid,omitempty"`
	// Repeat is set where the step waits for something that happens by itself. The command is repeated until all of the above holds.
	Repeat bool `json:"until,omitempty"`
}

//go:embed jobs.yaml
var jobs []byte

// Jobs returns the jobs of the trial, in their order. Each goes on with the cluster that the one before it has left.
func Jobs() ([]Job, error) {
	var all []Job
	if err := yaml.UnmarshalStrict(jobs, &all); err != nil {
		return nil, fmt.Errorf("read jobs.yaml: %w", err)
	}
	return all, nil
}

// Wrong names what of an answer is not as the step has it.
func (s Step) Wrong(text string, code int) (wrong []string) {
	if code != s.Code {
		wrong = append(wrong, fmt.Sprintf("the exit code is %d, and not %d", code, s.Code))
	}
	for _, sentence := range s.Says {
		if !contains(text, sentence) {
			wrong = append(wrong, fmt.Sprintf("it does not say %q", sentence))
		}
	}
	for _, sentence := range s.Unsaid {
		if contains(text, sentence) {
			wrong = append(wrong, fmt.Sprintf("it says %q", sentence))
		}
	}
	return wrong
}

// contains compares words: tables and lines may break as they like.
func contains(text, sentence string) bool {
	return strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(sentence), " "))
}

// Statements returns the nodekeep command of a line of a shell, as words without the program, for [Untrue]. It is nil where the line holds another
// program, a pipe or a flag that takes a value. What is printed is then not the command's alone.
func (s Step) Statements() []string {
	words := strings.Fields(s.Run)
	if len(words) == 0 || words[0] != "nodekeep" || strings.ContainsAny(s.Run, "|;&$'\"\n") || slices.ContainsFunc(words, func(word string) bool {
		return word == "-n" || word == "-o" || word == "-f" || word == "--max"
	}) {
		return nil
	}
	return words[1:]
}
