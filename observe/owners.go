package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// ownedFields is the part of a managedFields entry that names labels, annotations and taints. Each field's name follows "f:"; see FieldsV1
// in k8s.io/apimachinery/pkg/apis/meta/v1.
type ownedFields struct {
	Metadata struct {
		Labels      map[string]jsontext.Value `json:"f:labels"`
		Annotations map[string]jsontext.Value `json:"f:annotations"`
	} `json:"f:metadata"`
	Spec struct {
		Taints        jsontext.Value `json:"f:taints"` // all of them: who changes one owns the list
		Unschedulable jsontext.Value `json:"f:unschedulable"`
	} `json:"f:spec"`
}

// ancientChanges is the manager into which the API server merges the oldest entries when there are too many of them. Entries of nodekeep
// may be among them.
const ancientChanges = "ancient-changes"

// owners is what managedFields show of a Node.
type owners struct {
	writers []Writer
	stamp   stampWriter
}

// Writer is an entry of managedFields that owns labels, the taints, the cordon or annotations that the policy keeps.
type Writer struct {
	Manager     string
	Operation   string
	Subresource string

	Labels []string // keys of labels and annotations, sorted
	Taints bool
	Cordon bool
	// Time is when it last changed anything that it owns, in seconds since 1970; 0: not known.
	Time int64
}

// stampWriter is who wrote the stamp.
type stampWriter int

// The writers. A client chooses the name that its change is booked under, so "capture" is a claim.
const (
	byWebhook stampWriter = iota // what a webhook adds has no owner
	byCapture
	byOthers
)

// maxManager is how long the name of a manager may be, in bytes, as for the API server. U+FFFD has more bytes than what it replaces.
const maxManager = 128

// ownedFieldsOf reads managedFields. They also name conditions and resources, by texts that a kubelet chooses. Names that are no valid
// UTF-8, or equal once made valid, must not hide what the entry says of labels. An entry that cannot be read owns nothing, so its items
// count as an operator's. It is better to record such an item than to lose it.
func ownedFieldsOf(entries []metav1.ManagedFieldsEntry, keep policy.Annotations) (found owners) {
	anyNames := json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for _, entry := range entries {
		var owned ownedFields
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned, anyNames) != nil {
			continue
		}
		if _, wrote := owned.Metadata.Annotations["f:"+policy.StampAnnotation]; wrote {
			found.stamp = max(found.stamp, writerOf(entry.Manager))
		}
		wrote := Writer{
			Manager: policy.Shortened(entry.Manager, maxManager), Operation: policy.Shortened(string(entry.Operation), maxManager), Subresource: policy.Shortened(entry.Subresource, maxManager),
			Taints: len(owned.Spec.Taints) > 0, Cordon: len(owned.Spec.Unschedulable) > 0,
		}
		for field := range owned.Metadata.Labels {
			if key, isField := strings.CutPrefix(field, "f:"); isField && !record.IsAnnotation(key) {
				wrote.Labels = append(wrote.Labels, key)
			}
		}
		for field := range owned.Metadata.Annotations {
			annotation, isField := strings.CutPrefix(field, "f:")
			if keeps, _ := keep.Keeps(annotation); isField && keeps {
				wrote.Labels = append(wrote.Labels, record.AnnotationKey(annotation))
			}
		}
		if len(wrote.Labels) == 0 && !wrote.Taints && !wrote.Cordon {
			continue
		}
		if entry.Time != nil && hasTime(*entry.Time) {
			wrote.Time = entry.Time.Unix()
		}
		slices.Sort(wrote.Labels)
		found.writers = append(found.writers, wrote)
	}
	slices.SortFunc(found.writers, func(a, b Writer) int { // not as the API server sorts them, by the time
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Subresource, b.Subresource), slices.Compare(a.Labels, b.Labels), cmp.Compare(a.Time, b.Time))
	})
	return found
}

// ownersOf returns the managers of each label and annotation, sorted, without nodekeep. A restored item has no owner until a client changes it,
// like the items that admission restored.
func ownersOf(writers []Writer) map[string][]string {
	var managers map[string][]string
	for _, wrote := range writers {
		if wrote.Manager == FieldManager || len(wrote.Labels) == 0 {
			continue
		}
		if managers == nil {
			managers = make(map[string][]string, len(wrote.Labels))
		}
		single := []string{wrote.Manager} // most labels have one manager: all of its labels share this list
		for _, key := range wrote.Labels {
			switch list, owned := managers[key]; {
			case !owned:
				managers[key] = single
			case !slices.Contains(list, wrote.Manager):
				managers[key] = append(slices.Clip(list), wrote.Manager)
			}
		}
	}
	return managers
}

// lastingOwners returns the owners of each label and annotation that nodekeep restores with its value. Those that set it again by themselves are
// left out, and those that the API server has lost.
func lastingOwners(writers []Writer, p policy.Policy) map[string]record.Owners {
	var owners map[string]record.Owners
	for _, wrote := range writers {
		if len(wrote.Labels) == 0 || !lasts(wrote.Manager, p) {
			continue
		}
		if owners == nil {
			owners = make(map[string]record.Owners, len(wrote.Labels))
		}
		by := record.Manager{Name: wrote.Manager, Operation: wrote.Operation, Subresource: wrote.Subresource}
		single := record.OwnersOf(by)
		for _, key := range wrote.Labels {
			if managers := owners[key]; managers == "" {
				owners[key] = single
			} else {
				owners[key] = record.OwnersOf(append(managers.Managers(), by)...)
			}
		}
	}
	return owners
}

// lasts reports whether an owner is restored with its value.
func lasts(manager string, p policy.Policy) bool {
	single := []string{manager}
	return manager != FieldManager && !policy.LostOwners(single) && p.OwnedByPeople(single)
}

// RestorableOwners returns the owners without those that are not restored. The policy may have changed since they were recorded.
func RestorableOwners(owners record.Owners, p policy.Policy) record.Owners {
	managers := owners.Managers()
	if !slices.ContainsFunc(managers, func(m record.Manager) bool { return !lasts(m.Name, p) }) {
		return owners
	}
	return record.OwnersOf(slices.DeleteFunc(managers, func(m record.Manager) bool { return !lasts(m.Name, p) })...)
}

// knownOwners returns the managers of each label and annotation, as [ownersOf] has them. Beyond ten entries the API server merges the oldest into
// one. What only that one owns is unknown. What the Node brought is the kubelet's then. Otherwise, and where a client decided this value
// on this object, it stays a client's.
func (n *Node) knownOwners(r record.Record) map[string][]string {
	known, copied := n.Owners, false
	for key, managers := range n.Owners {
		if !policy.LostOwners(managers) {
			continue
		}
		e, recorded := r.Entry(key)
		listed := record.StampValue(key, n.Items[key])
		brought, brings := n.annotations.stamp.Brought[key]
		if !brings || brought != listed || recorded && !e.Removed && e.Value == n.Items[key] && r.DecidedOn(e) == n.UID {
			continue
		}
		if !copied {
			known, copied = maps.Clone(n.Owners), true
		}
		known[key] = []string{policy.Kubelet}
	}
	return known
}

// KubeletLabels returns the items of the kubelet's own, with their values. They are labels that only it has set and a client might have set. They are also
// taints that a client has removed from its Node before. While the kubelet is the only one that wrote the list of taints, it brought them.
func (n *Node) KubeletLabels(r record.Record, p policy.Policy) (labels map[string]string) {
	add := func(key string) {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = record.StampValue(key, n.Items[key])
	}
	for key, managers := range n.Owners {
		if _, known := r.Entry(key); !known && record.IsLabel(key) && p.Selects(key) && !p.OwnedByPeople(managers) {
			add(key)
		}
	}
	if n.taintsBroughtBy(p) {
		for key := range n.Items {
			if e, known := r.Entry(key); known && e.Removed && record.IsTaint(key) && key != policy.Cordon && p.Selects(key) {
				add(key)
			}
		}
	}
	if len(labels) > policy.MaxKubeletItems {
		return nil
	}
	return labels
}

// taintsBroughtBy reports whether only the kubelet has written the list of taints, as far as the Node shows.
func (n *Node) taintsBroughtBy(p policy.Policy) (ok bool) {
	for _, w := range n.Writers {
		if w.Taints && (p.OwnedByPeople([]string{w.Manager}) || strings.HasSuffix(w.Manager, "controller-manager")) {
			return false
		}
		ok = ok || w.Taints
	}
	return ok
}

func writerOf(manager string) stampWriter {
	if manager == FieldManager || manager == ancientChanges {
		return byCapture
	}
	return byOthers
}
