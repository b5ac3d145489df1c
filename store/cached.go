package store

import (
	"fmt"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/record"
)

// cached is what memory holds of a ConfigMap. It is the record, or why the record cannot be read, or that this version was removed.
type cached struct {
	name, namespace, version string
	record                   packed
	accepted                 Side
	err                      error
	removed                  bool
	bytes                    int32 // of the record as it is stored
}

// GetObjectMeta is for the informer, which asks for name, namespace and resourceVersion.
func (e *cached) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: e.name, Namespace: e.namespace, ResourceVersion: e.version}
}

// compact decodes the record and drops the rest. The informer may call it on its own result.
func compact(object any) (any, error) {
	if cm, ok := object.(*corev1.ConfigMap); ok {
		return compactWith(document.decode, cm), nil
	}
	return object, nil
}

// compactWith never panics and never fails. A panic would end the process. After an error, the informer would list all records again and
// would never be synced. A record that panics counts as unreadable.
func compactWith(decode func(document) (record.Record, error), cm *corev1.ConfigMap) *cached {
	stored := documentOf(cm)
	entry := &cached{
		name: strings.Clone(cm.Name), namespace: unique.Make(cm.Namespace).Value(), version: strings.Clone(cm.ResourceVersion),
		bytes: int32(len(stored.record) + len(stored.quarantined) + len(stored.earlier)), // a ConfigMap has 1 MiB at most
	}
	entry.err = contain.Call(func() error {
		r, err := decode(stored)
		entry.record, entry.accepted = pack(r), stored.side(r)
		return err
	})
	if _, panicked := contain.IsPanic(entry.err); panicked {
		entry.record = pack(record.Record{})
	}
	return entry
}

// entryOf returns what an event of the informer is about.
func entryOf(object any) (entry *cached, ok bool) {
	if tombstone, gone := object.(cache.DeletedFinalStateUnknown); gone {
		object = tombstone.Obj
	}
	entry, ok = object.(*cached)
	return entry, ok
}

// unreadable says why nothing may be taken from the record, or nothing.
func (e *cached) unreadable() error {
	if e.err == nil && Name(e.record.node()) != e.name {
		return fmt.Errorf("it is the record of node %q", e.record.node())
	}
	return e.err
}

// node returns the Node that the ConfigMap is named after; a record that names another one is not that Node's.
func (e *cached) node() string {
	if e.unreadable() == nil {
		return e.record.node()
	}
	return strings.TrimPrefix(e.name, namePrefix)
}

// supersededBy reports whether the watch has delivered the same state as our own, or a newer one. Then our own no longer counts. A removal
// has the very version that the watch may deliver late, so only a newer version counts over it.
func (e *cached) supersededBy(fromWatch *cached) bool {
	if e.removed && e.version == fromWatch.version {
		return false
	}
	return !newer(e, fromWatch)
}

// newer reports whether a is newer than b; what cannot be compared counts as not newer, so the watch wins.
func newer(a, b *cached) bool {
	order, err := resourceversion.CompareResourceVersion(a.version, b.version)
	return err == nil && order > 0
}
