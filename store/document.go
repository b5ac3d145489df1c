package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// What a record's ConfigMap looks like.
const (
	DataKey        = "record.json"
	QuarantinedKey = "quarantined.json"    // the record from before another machine took the name
	EarlierKey     = "earlier.json"        // the records of machines that had the name before, see [record.SetAside]
	RecordLabel    = "nodekeep.dev/record" // "true"; what our informer selects on
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "nodekeep"
	// In AcceptAnnotation an operator names which side of a quarantined record is right: "old" or "new".
	AcceptAnnotation = "nodekeep.dev/accept"
)

// Side is one of the two that a quarantined record is about.
type Side string

// The sides.
const (
	OldMachine Side = "old" // the record from before
	NewMachine Side = "new" // the machine that has the name now
)

// document is what a ConfigMap holds of a record, as text.
type document struct {
	record      string
	quarantined string // empty: nothing is quarantined
	earlier     string // empty: no other machine had the name
	accepted    Side
}

func documentOf(cm *corev1.ConfigMap) document {
	return document{record: cm.Data[DataKey], quarantined: cm.Data[QuarantinedKey], earlier: cm.Data[EarlierKey], accepted: Side(cm.Annotations[AcceptAnnotation])}
}

// encode writes a record; that a side was accepted is not written back, since it is done with then.
func encode(r record.Record) (document, error) {
	data, err := Encode(r)
	if err != nil {
		return document{}, err
	}
	written := document{record: string(data)}
	if r.Quarantined != nil {
		old, err := Encode(*r.Quarantined)
		if err != nil {
			return document{}, fmt.Errorf("encode quarantined side: %w", err)
		}
		written.quarantined = string(old)
	}
	written.earlier, err = encodeEarlier(r.Earlier)
	return written, err
}

// decode reads a record and those of other machines next to it. If one of them cannot be read, none may be used.
func (d document) decode() (record.Record, error) {
	r, err := record.Decode([]byte(d.record))
	if err != nil {
		return r, err
	}
	if d.quarantined != "" {
		old, err := decodeOther([]byte(d.quarantined), r.Node)
		if err != nil {
			return record.Record{}, fmt.Errorf("%s: %w", QuarantinedKey, err)
		}
		r.Quarantined = &old
	}
	if r.Earlier, err = decodeEarlier(d.earlier, r.Node); err != nil {
		return record.Record{}, fmt.Errorf("%s: %w", EarlierKey, err)
	}
	return r, nil
}

// decodeOther reads the record of another machine of this Node.
func decodeOther(data []byte, node string) (record.Record, error) {
	old, err := record.Decode(data)
	if err == nil && old.Node != node {
		err = errors.New("it is the record of another node")
	}
	return old, err
}

// side returns the side that an operator has accepted, while there is something to accept.
func (d document) side(r record.Record) Side {
	if r.Quarantined == nil {
		return ""
	}
	return d.accepted
}

// configMap returns a new one that holds the document.
func (d document) configMap(name, namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: recordLabels()}, Data: d.data()}
}

// DataOf returns what a ConfigMap holds of a record.
func DataOf(r record.Record) (map[string]string, error) {
	d, err := encode(r)
	return d.data(), err
}

func (d document) data() map[string]string {
	data := map[string]string{DataKey: d.record, QuarantinedKey: d.quarantined, EarlierKey: d.earlier}
	maps.DeleteFunc(data, func(key, content string) bool { return key != DataKey && content == "" })
	return data
}

// patch returns a JSON merge patch. It puts the document into the ConfigMap of that version and leaves all other content unchanged.
func (d document) patch(version string) ([]byte, error) {
	data := map[string]any{DataKey: d.record, QuarantinedKey: nil, EarlierKey: nil}
	for key, content := range d.data() {
		data[key] = content
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": version,
			"labels":          recordLabels(),
			"annotations":     map[string]any{AcceptAnnotation: nil},
		},
		"data": data,
	})
}

func recordLabels() map[string]string {
	return map[string]string{managedByLabel: managedBy, RecordLabel: "true"}
}

// Encode returns the record as it is stored, see [record.Encode]. Where all of it would be too large, its history gives way, the oldest
// entries first. The number of its last change stays.
func Encode(r record.Record) ([]byte, error) {
	data, err := record.Encode(r)
	for errors.Is(err, record.ErrTooLarge) {
		shorter, ok := history.Shortened(r)
		if !ok { // without the number of the last change, if not even that has room
			if r.History == nil {
				break
			}
			shorter.History = nil
		}
		r = shorter
		data, err = record.Encode(r)
	}
	return data, err
}

// Decode reads a record of the Node. It returns [ErrUnreadable] if the record does not parse, is too large or too new, or names another
// Node. The error says which.
func Decode(data []byte, node string) (record.Record, error) {
	r, err := record.Decode(data)
	return verifyNode(node, r, err)
}

// verifyNode returns the record if it could be read and is the Node's.
func verifyNode(node string, r record.Record, err error) (record.Record, error) {
	if err == nil && r.Node != node {
		err = fmt.Errorf("it is the record of node %q", r.Node)
	}
	if err != nil {
		return record.Record{}, fmt.Errorf("read record of node %q: %w: %w", node, ErrUnreadable, err)
	}
	return r, nil
}
