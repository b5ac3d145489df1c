package verify

import (
	"errors"
	"fmt"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// TaskVariable is the environment variable of the worker that has the [Task].
const TaskVariable = "NODEKEEP_CHECKS"

// maxTask is the greatest length of a task in bytes: Linux refuses a longer environment variable.
const maxTask = 128 << 10

// MaxCheckBytes is the greatest length of the checks of a profile as JSON: half of a task. The rest has what the controller looks up for them.
const MaxCheckBytes = maxTask / 2

// Task is what the controller hands to the worker, as JSON in the environment variable [TaskVariable].
type Task struct {
	Timeout string `json:"timeout"` // of all checks together, as for [time.ParseDuration]
	// Checks are all of the profile. Those of kind container are the Pod's own containers: the worker only counts them ([ReportLimit]).
	Checks []Check `json:"checks"`
	// Services and DNS are what the controller has looked up for checks that compare.
	Services map[string]Target `json:"services,omitempty"` // by NAMESPACE/NAME, and by [Service.Target] for service checks
	DNS      Target            `json:"dns"`                // the DNS Service
}

// String returns the task as JSON.
func (t Task) String() string { return toJSON(t) }

// Target is where a Service is.
type Target struct {
	ClusterIPs []string `json:"clusterIPs,omitempty"`
	Endpoints  []string `json:"endpoints,omitempty"` // ready ones, IP:PORT, as the controller has chosen them
}

// ParseTask reads a task strictly. An unknown field is an error: a check of a newer version must not count as passed.
func ParseTask(text string) (Task, error) {
	var task Task
	if text == "" {
		return Task{}, errors.New("read task: it is empty")
	}
	if len(text) > maxTask {
		return Task{}, fmt.Errorf("read task: it has %d bytes, more than %d", len(text), maxTask)
	}
	strict, err := kjson.UnmarshalStrict([]byte(text), &task)
	if err := errors.Join(append(strict, err)...); err != nil {
		return Task{}, fmt.Errorf("read task: %w", err)
	}
	if timeout, err := time.ParseDuration(task.Timeout); err != nil || timeout <= 0 {
		return Task{}, fmt.Errorf("read task: timeout %q: must be a duration greater than 0", task.Timeout)
	}
	names := map[string]bool{}
	for i := range task.Checks {
		check := &task.Checks[i]
		if names[check.Name] {
			return Task{}, fmt.Errorf("read task: two checks have the name %q", check.Name)
		}
		names[check.Name] = true
		if kinds := check.kinds(); len(kinds) != 1 {
			return Task{}, fmt.Errorf("read task: check %q has %d kinds, must have one", check.Name, len(kinds))
		}
		if timeout, err := time.ParseDuration(check.Timeout); check.Timeout != "" && (err != nil || timeout <= 0) {
			return Task{}, fmt.Errorf("read task: timeout %q of check %q: must be a duration greater than 0", check.Timeout, check.Name)
		}
	}
	return task, nil
}

// ServiceOfName returns the Service, as NAMESPACE/NAME, that a name of a DNS check means: NAME.NAMESPACE.svc and what may follow. ok is false for
// other names. NAME.NAMESPACE is one of them, because example.com looks the same.
func ServiceOfName(name string) (service string, ok bool) {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(name, ".")), ".")
	if len(labels) < 3 || labels[2] != "svc" || labels[0] == "" || labels[1] == "" {
		return "", false
	}
	return labels[1] + "/" + labels[0], true
}
