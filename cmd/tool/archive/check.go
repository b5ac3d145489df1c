package archive

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// recordOf reads an object that holds a record, and says all that is wrong with it.
func recordOf(raw []byte) (record store.Record, wrong []string) {
	var found document
	if err := json.Unmarshal(raw, &found, json.RejectUnknownMembers(true)); err != nil {
		return store.Record{}, []string{reason(err)}
	}
	if len(found.Record) == 0 {
		return store.Record{}, []string{"there is no record in it"}
	}
	record, wrong = side(found.Record)
	if len(found.Quarantined) > 0 {
		old, wrongOld := side(found.Quarantined)
		if old.Node != record.Node {
			wrongOld = append(wrongOld, fmt.Sprintf("it is the record of node %q", old.Node))
		}
		for _, what := range wrongOld {
			wrong = append(wrong, "quarantined: "+what)
		}
		record.Quarantined, record.Accepted = &old, found.Accepted
	}
	switch {
	case found.Accepted == "":
	case found.Accepted != store.OldMachine && found.Accepted != store.NewMachine:
		wrong = append(wrong, fmt.Sprintf("accepted %q: must be %s or %s", found.Accepted, store.OldMachine, store.NewMachine))
	case record.Quarantined == nil:
		wrong = append(wrong, "accepted: there is nothing quarantined that could be")
	}
	return record, wrong
}

// side reads one record.
func side(raw []byte) (record store.Record, wrong []string) {
	var of struct {
		Node string `json:"node"`
	}
	if err := stdjson.Unmarshal(raw, &of); err != nil {
		return store.Record{}, []string{reason(err)}
	}
	if invalid := validation.IsDNS1123Subdomain(of.Node); len(invalid) > 0 {
		wrong = append(wrong, fmt.Sprintf("%q cannot be the name of a Node: %s", of.Node, invalid[0]))
	}
	record, err := store.Decode(raw, of.Node)
	if err == nil {
		_, err = store.Encode(record) // as it would be written
	}
	if err != nil {
		record.Node, wrong = of.Node, append(wrong, reason(err))
	}
	return record, append(wrong, wrongItems(raw)...)
}

// reason is the innermost error: what wraps it names what the mistake names already.
func reason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if several, is := err.(interface{ Unwrap() []error }); is {
			inner = several.Unwrap()[len(several.Unwrap())-1]
		}
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// items are the labels and taints of a record as they are written, before the store leaves out what cannot be.
type items struct {
	Labels   map[string]string  `json:"labels"`
	Taints   []corev1.Taint     `json:"taints"`
	Later    map[string]*string `json:"later"`
	Withheld struct {
		Labels map[string]string `json:"labels"`
		Taints []corev1.Taint    `json:"taints"`
	} `json:"withheld"`
}

// wrongItems finds what the API server would not have on a Node.
func wrongItems(raw []byte) (wrong []string) {
	var found items
	if err := stdjson.Unmarshal(raw, &found); err != nil {
		return []string{reason(err)}
	}
	for _, labels := range []map[string]string{found.Labels, found.Withheld.Labels} {
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			if policy.IsTaint(key) || !policy.ValidItem(key, labels[key]) {
				wrong = append(wrong, fmt.Sprintf("%q: %q is not a valid label", key, labels[key]))
			}
		}
	}
	for _, taints := range [][]corev1.Taint{found.Taints, found.Withheld.Taints} {
		wrong = append(wrong, wrongTaints(taints)...)
	}
	for _, item := range slices.Sorted(maps.Keys(found.Later)) {
		if value := found.Later[item]; value != nil && !policy.ValidItem(item, *value) {
			wrong = append(wrong, fmt.Sprintf("later: %q: %q is not a valid label or taint", item, *value))
		}
	}
	return wrong
}

func wrongTaints(taints []corev1.Taint) (wrong []string) {
	seen := map[string]bool{}
	for _, taint := range taints {
		item := policy.TaintItem(taint)
		if !policy.ValidItem(item, taint.Value) {
			wrong = append(wrong, fmt.Sprintf("%s is not a valid taint", taint.ToString()))
		}
		if seen[item] {
			wrong = append(wrong, fmt.Sprintf("the taint %s is there twice", item))
		}
		seen[item] = true
	}
	return wrong
}
