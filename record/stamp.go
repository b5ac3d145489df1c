package record

import (
	"encoding/json"
	"maps"
)

// Stamp is the content of nodekeep's annotation on a Node object. It distinguishes what nodekeep set from what a client set. It also
// distinguishes a label that a client removed from one that was lost with the previous object.
type Stamp struct {
	// Given is what nodekeep set. A client may have changed it since.
	Given map[string]Given `json:"given,omitempty"`
	// Followed is the Node whose record the values are from, if the webhook took this Node's machine for that one's. Whether it may follow
	// that record is capture's to decide.
	Followed string `json:"followed,omitempty"`
	// Brought are keys that the Node had in its CREATE: recorded ones, and labels of the kubelet's own. Each has its value of that time, as
	// [StampValue] writes it.
	Brought map[string]string `json:"brought,omitempty"`
	// TaintsBehindGate are the keys of the taints that the Node had behind the gate, sorted; nil: nodekeep removed no gate.
	TaintsBehindGate []string `json:"opened,omitzero"`
	// Boot is the ID of the boot that the object's registration taints were last given for, or that was only noted; empty: none is known. If the
	// machine runs another boot, it has rebooted since.
	Boot string `json:"boot,omitempty"`
}

// Given is a value that nodekeep set, as [StampValue] writes it.
type Given struct {
	Value string `json:"value"`
	// From is the version of the entry that the value is from; 0 if that entry had none. Only a newer entry says more than the Node.
	From Version `json:"from,omitempty,string"`
	// Version is the resourceVersion that the PATCH was made on; 0 in the CREATE.
	Version Version `json:"since,omitempty,string"`
	// Owners are the managers that nodekeep restores with the value.
	Owners Owners `json:"owners,omitempty"`
}

// ParseStamp reads the annotation. ok is false where it cannot be read; that counts as no annotation.
func ParseStamp(value string) (stamp Stamp, ok bool) {
	if err := json.Unmarshal([]byte(value), &stamp); err != nil {
		return Stamp{}, false
	}
	return stamp, true
}

// String returns the value of the annotation. Equal stamps have equal bytes.
func (s Stamp) String() string {
	value, err := json.Marshal(s)
	if err != nil {
		panic("marshal a stamp of strings: " + err.Error()) // cannot happen: maps of strings and numbers
	}
	return string(value)
}

// Merge returns the stamp once nodekeep has set these values of a record. The PATCH is made on the version since.
func (s Stamp) Merge(items map[string]string, from Record, version Version) Stamp {
	if len(items) == 0 {
		return s
	}
	given := make(map[string]Given, len(s.Given)+len(items))
	maps.Copy(given, s.Given)
	for key, value := range items {
		e, _ := from.Entry(key)
		given[key] = Given{Value: StampValue(key, value), From: e.Version, Version: version, Owners: e.Owners}
	}
	s.Given = given
	return s
}

// Remove returns the stamp once nodekeep has removed these items. It should not have set them, or rules do not want them.
func (s Stamp) Remove(keys []string) Stamp {
	s.Given, s.Brought = maps.Clone(s.Given), maps.Clone(s.Brought)
	for _, key := range keys {
		delete(s.Given, key)
		delete(s.Brought, key)
	}
	return s
}

// Lists reports whether the stamp says of a key that the object had it.
func (s Stamp) Lists(key string) bool {
	_, given := s.Given[key]
	_, brought := s.Brought[key]
	return given || brought
}
