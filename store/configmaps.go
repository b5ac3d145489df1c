package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// Entry is a record as it was read. Version is what [ConfigMaps.Put] must be given to replace exactly this one.
type Entry struct {
	Record  record.Record
	Version string
	// Accepted is the side of a quarantined record that an operator has accepted; empty while nobody has.
	Accepted Side
	// Unlisted says that the ConfigMap lacks the label by which records are found, so caches do not hold it; any Put
	// puts the label back.
	Unlisted bool
}

// ConfigMaps is the place where records live in a cluster. Get answers from memory once Run has synced; GetLive, Put
// and Delete call the API server.
type ConfigMaps struct {
	cache     *recordCache
	client    typedcorev1.ConfigMapInterface
	namespace string
}

// NewConfigMaps is the store in a namespace; start it with [ConfigMaps.Run].
func NewConfigMaps(client kubernetes.Interface, namespace string, logger *slog.Logger) (*ConfigMaps, error) {
	cache, err := newRecordCache(client, namespace, logger)
	if err != nil {
		return nil, err
	}
	return &ConfigMaps{cache: cache, client: client.CoreV1().ConfigMaps(namespace), namespace: namespace}, nil
}

// Run keeps the records current until ctx is done.
func (c *ConfigMaps) Run(ctx context.Context) { c.cache.informer.RunWithContext(ctx) }

// Synced reports whether every record that existed at the start is in memory.
func (c *ConfigMaps) Synced() bool { return c.cache.registration.HasSynced() }

// Progress is when the API server last sent something on the watch of records: an event, or the bookmark that each watch ends with.
// While it does, that is about a minute ago at most, or up to 96 s where nothing changes in etcd.
func (c *ConfigMaps) Progress() time.Time { return c.cache.progress.last() }

// Count is how many ConfigMaps there are that hold a record, and how many of them cannot be read.
func (c *ConfigMaps) Count() (readable, unreadable int) { return c.cache.totals.count() }

// Bytes is how large all records are as they are stored, and the largest of them: [record.MaxBytes] is as far as one may grow.
func (c *ConfigMaps) Bytes() (all, largest int) { return c.cache.totals.size() }

// Nodes lists the names of all Nodes that there is a record of, from memory.
func (c *ConfigMaps) Nodes() []string { return c.cache.nodes() }

// OnChange calls changed with the name of each Node whose record is added, changed or removed, and of every record
// there is when called. It returns once the handler is registered; changed must not block.
func (c *ConfigMaps) OnChange(changed func(node string)) error { return c.cache.onChange(changed) }

// Get is the record of a Node from memory, without an API call and without its history, see [record.Record]. The
// error is [ErrNotFound] or [ErrUnreadable].
func (c *ConfigMaps) Get(node string) (Entry, error) {
	cached, found := c.cache.get(Name(node))
	if !found {
		return Entry{}, fmt.Errorf("read record of node %q: %w", node, ErrNotFound)
	}
	r, err := of(node, cached.record.record(), cached.err)
	return Entry{Record: r, Version: cached.version, Accepted: cached.accepted}, err
}

// GetLive is the record of a Node, whole, as the API server has it now. The error is [ErrNotFound], [ErrUnreadable] or the API's.
func (c *ConfigMaps) GetLive(ctx context.Context, node string) (Entry, error) {
	cm, err := c.client.Get(ctx, Name(node), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.cache.gone(Name(node))
		return Entry{}, fmt.Errorf("read record of node %q: %w", node, ErrNotFound)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read record of node %q: %w", node, err)
	}
	entry, err := entryFrom(cm, node)
	entry.Unlisted = cm.Labels[RecordLabel] != "true"
	return entry, err
}

// Put writes a record over the one with the version that was read, or creates it where version is empty. [ErrConflict]
// means that somebody was faster: read it live and decide again. Only our own data key and labels are written. A record
// that was read without its history is refused.
func (c *ConfigMaps) Put(ctx context.Context, r record.Record, version string) (Entry, error) {
	written, err := encode(r)
	if err != nil {
		return Entry{}, err
	}
	cm, err := c.write(ctx, r.Node, written, version)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && version != "":
		return Entry{}, fmt.Errorf("put record of node %q: %w: %w", r.Node, ErrConflict, err)
	case err != nil:
		return Entry{}, fmt.Errorf("put record of node %q: %w", r.Node, err)
	}
	c.cache.wrote(cm)
	return Entry{Record: r, Version: cm.ResourceVersion}, nil
}

// Delete removes the record of a Node if it is of the version that was read, and nothing else under its name. [ErrConflict]
// means that somebody has written, replaced or removed it since. Whatever the error, what is read live counts: an answer can
// get lost.
func (c *ConfigMaps) Delete(ctx context.Context, node, version string) error {
	if version == "" { // without one, the API server would remove whatever is there
		return fmt.Errorf("delete record of node %q: %w: no version was read", node, ErrConflict)
	}
	err := c.client.Delete(ctx, Name(node), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("delete record of node %q: %w: %w", node, ErrConflict, err)
	case err != nil:
		return fmt.Errorf("delete record of node %q: %w", node, err)
	}
	c.cache.removed(Name(node), version)
	return nil
}

// entryFrom reads the record of a Node whole.
func entryFrom(cm *corev1.ConfigMap, node string) (Entry, error) {
	stored := documentOf(cm)
	r, err := stored.decode()
	r, err = of(node, r, err)
	return Entry{Record: r, Version: cm.ResourceVersion, Accepted: stored.side(r)}, err
}

func (c *ConfigMaps) write(ctx context.Context, node string, written document, version string) (*corev1.ConfigMap, error) {
	if version == "" {
		return c.client.Create(ctx, written.configMap(Name(node), c.namespace), metav1.CreateOptions{})
	}
	patch, err := written.patch(version)
	if err != nil {
		return nil, err
	}
	return c.client.Patch(ctx, Name(node), types.MergePatchType, patch, metav1.PatchOptions{})
}
