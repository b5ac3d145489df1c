package history

import (
	"encoding/json"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/record"
)

// changeFields is the JSON of a [Change]. Labels, taints and annotations stand apart, as in a record.
type changeFields struct {
	Number      int                 `json:"number,omitempty"`
	Time        metav1.Time         `json:"time"`
	Actor       string              `json:"actor,omitempty"`
	Labels      map[string]Values   `json:"labels,omitempty"`
	Taints      []taintChangeFields `json:"taints,omitempty"`
	Annotations map[string]Values   `json:"annotations,omitempty"`
	Omitted     int                 `json:"omitted,omitempty"`
}

type taintChangeFields struct {
	Key    string             `json:"key"`
	Effect corev1.TaintEffect `json:"effect"`
	Values
}

// MarshalJSON writes an entry with its labels, taints and annotations apart, in a stable order.
func (c Change) MarshalJSON() ([]byte, error) {
	fields := changeFields{Number: c.Number, Time: c.Time, Actor: c.Actor, Labels: map[string]Values{}, Annotations: map[string]Values{}, Omitted: c.Omitted}
	var taints []corev1.Taint
	for item, values := range c.Items {
		if annotation, ok := record.Annotation(item); ok {
			fields.Annotations[annotation] = values
		} else if record.IsTaint(item) {
			taints = append(taints, record.Taint(item, ""))
		} else {
			fields.Labels[item] = values
		}
	}
	record.SortTaints(taints)
	for _, taint := range taints {
		fields.Taints = append(fields.Taints, taintChangeFields{taint.Key, taint.Effect, c.Items[record.TaintKey(taint)]})
	}
	return json.Marshal(fields)
}

// UnmarshalJSON reads an entry. It takes any; [Changes] leaves out those that nodekeep cannot have written.
func (c *Change) UnmarshalJSON(data []byte) error {
	var fields changeFields
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	*c = Change{Number: fields.Number, Time: fields.Time, Actor: fields.Actor, Omitted: fields.Omitted}
	if c.Items = fields.Labels; c.Items == nil && len(fields.Taints)+len(fields.Annotations) > 0 {
		c.Items = map[string]Values{}
	}
	for _, taint := range fields.Taints {
		c.Items[record.TaintKey(corev1.Taint{Key: taint.Key, Effect: taint.Effect})] = taint.Values
	}
	for annotation, values := range fields.Annotations {
		c.Items[record.AnnotationKey(annotation)] = values
	}
	return nil
}

// historyOf reads a history. Any client with write access to ConfigMaps may have written it, and nothing is restored from it. So it leaves
// out entries that nodekeep cannot have written; they never make a record unreadable. EndRead reports that it leaves out none after the last
// change of a client.
func historyOf(raw json.RawMessage) (history []Change, endRead bool) {
	if len(raw) == 0 {
		return nil, true
	}
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return nil, false
	}
	endRead = true
	for _, entry := range entries {
		var change Change
		switch {
		case json.Unmarshal(entry, &change) != nil || !change.valid() || !change.unnumbered() && change.Number <= lastNumber(history):
			endRead = false
			continue
		case !change.unnumbered():
			endRead = true
		}
		history = append(history, change)
	}
	return bounded(history), endRead
}

// What an entry can say.
const (
	maxNumber = 1 << 30
	maxActor  = 128 // the longest name of a manager that the API server takes
)

// valid reports whether nodekeep can have written the entry.
func (c Change) valid() bool {
	t := c.Time.UTC()
	if c.Number < 0 || c.Number > maxNumber || c.unnumbered() && !strings.HasPrefix(c.Actor, ruleActor) && !strings.HasPrefix(c.Actor, endActor) || c.Time.IsZero() || t.Year() < 1 || t.Year() > 9999 || !validActor(c.Actor) {
		return false
	}
	if (len(c.Items) > 0) == (c.Omitted > 0) || c.Omitted < 0 {
		return false
	}
	for item, values := range c.Items {
		if ptr.Equal(values.From, values.To) || !validOf(item, values.From) || !validOf(item, values.To) {
			return false
		}
	}
	return true
}

// validActor reports whether a manager can have that name, by the rules for managedFields.
func validActor(name string) bool {
	return len(strings.TrimPrefix(name, endActor)) <= maxActor && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// validOf reports whether a Node can show the value of an item; nil is none.
func validOf(item string, value *string) bool { return record.Valid(item, ptr.Deref(value, "")) }
