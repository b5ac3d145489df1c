package store

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// cached is what is held in memory of a ConfigMap: the decoded record, or why it cannot be read, or that this version of it
// was removed.
type cached struct {
	metav1.ObjectMeta
	record  Record
	err     error
	removed bool
}

// compact decodes the record and drops the rest. The informer may call it on its own result.
func compact(object any) (any, error) {
	cm, ok := object.(*corev1.ConfigMap)
	if !ok {
		return object, nil
	}
	record, err := documentOf(cm).decode()
	return &cached{
		ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Namespace: cm.Namespace, UID: cm.UID, ResourceVersion: cm.ResourceVersion},
		record:     record,
		err:        err,
	}, nil
}

// entryOf is what an event of the informer is about.
func entryOf(object any) (entry *cached, ok bool) {
	if tombstone, gone := object.(cache.DeletedFinalStateUnknown); gone {
		object = tombstone.Obj
	}
	entry, ok = object.(*cached)
	return entry, ok
}

// unreadable says why nothing may be taken from the record, or nothing.
func (e *cached) unreadable() error {
	if e.err == nil && Name(e.record.Node) != e.Name {
		return fmt.Errorf("it is the record of node %q", e.record.Node)
	}
	return e.err
}

// node is the Node that the ConfigMap is named after; a record that names another one is not that Node's.
func (e *cached) node() string {
	if e.unreadable() == nil {
		return e.record.Node
	}
	return strings.TrimPrefix(e.Name, namePrefix)
}

// supersededBy reports whether something of our own counts no more once the watch has brought that: the same or something
// newer. What was removed is of the very version that the watch may bring late, so only what is newer counts over it.
func (e *cached) supersededBy(fromWatch *cached) bool {
	if e.removed && e.ResourceVersion == fromWatch.ResourceVersion {
		return false
	}
	return !newer(e, fromWatch)
}

// newer reports whether a is newer than b; what cannot be compared counts as not newer, so the watch wins.
func newer(a, b *cached) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}
