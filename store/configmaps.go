package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// The errors that a caller may distinguish with [errors.Is].
var (
	// ErrNotFound says that there is no record of the Node.
	ErrNotFound = errors.New("no record")
	// ErrUnreadable says that there is one, but nothing may be taken from it, and it must not be overwritten.
	ErrUnreadable = errors.New("unreadable record")
	// ErrConflict says that another client wrote, created or removed the record since it was read. Read it live and decide again.
	ErrConflict = errors.New("record changed meanwhile")
)

// Entry is a record as it was read. Version is what [ConfigMaps.Put] must be given to replace exactly this one.
type Entry struct {
	Record  record.Record
	Version string
	// AcceptedSide is the side of a quarantined record that an operator has accepted; empty until then.
	AcceptedSide Side
	// Unlisted says that the ConfigMap lacks the label by which records are found, so caches do not hold it. Any Put restores the label.
	Unlisted bool
}

// ConfigMaps is the place where records live in a cluster. Get answers from memory once Run has synced; GetFromAPI, Put
// and Delete call the API server.
type ConfigMaps struct {
	cache     *recordCache
	client    typedcorev1.ConfigMapInterface
	namespace string
}

// NewConfigMaps returns the store in a namespace; start it with [ConfigMaps.Run].
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

// Progress returns when the API server last sent something on the watch of records. That is an event, or the bookmark at the end of each watch.
// On a working watch, it is at most about a minute ago. If nothing changes in etcd, it can be up to 96 s. While no watch is open, it is the
// zero time: writes of other clients are then unknown.
func (c *ConfigMaps) Progress() time.Time { return c.cache.link.Progress() }

// Totals returns what the records in memory come to.
func (c *ConfigMaps) Totals() Totals { return c.cache.totals.sum() }

// Get returns the record of a Node from memory, without an API call and without its history, see [record.Record]. The
// error is [ErrNotFound] or [ErrUnreadable].
func (c *ConfigMaps) Get(node string) (Entry, error) {
	cached, found := c.cache.get(Name(node))
	if !found {
		return Entry{}, fmt.Errorf("read record of node %q: %w", node, ErrNotFound)
	}
	r, err := verifyNode(node, cached.record.record(), cached.err)
	return Entry{Record: r, Version: cached.version, AcceptedSide: cached.accepted}, err
}

// GetFromAPI returns the record of a Node, whole, as the API server has it now. The error is [ErrNotFound], [ErrUnreadable] or the API's.
func (c *ConfigMaps) GetFromAPI(ctx context.Context, node string) (Entry, error) {
	cm, err := c.client.Get(ctx, Name(node), metav1.GetOptions{})
	if IsGone(err) {
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

// IsGone reports whether the API server says that there is no such object. A proxy in between may answer 404 for reasons of its own.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// IsConflict reports whether the API server refuses a write because the object has changed. It has a newer state (409). Or it was replaced by another
// of its name (422: its uid cannot be changed).
func IsConflict(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Type == metav1.CauseTypeFieldValueInvalid && cause.Field == "metadata.uid"
	})
}

// Put writes a record over the one with the version that was read, or creates it where version is empty. [ErrConflict]
// means that another client was faster: read it live and decide again. Only our own data key and labels are written. A record
// that was read without its history is refused.
func (c *ConfigMaps) Put(ctx context.Context, r record.Record, version string) (Entry, error) {
	written, err := encode(r)
	if err != nil {
		return Entry{}, err
	}
	cm, err := c.write(ctx, r.Node, written, version)
	if err != nil {
		return Entry{}, failed("put record", r.Node, err, apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && version != "")
	}
	c.cache.wrote(cm)
	return Entry{Record: r, Version: cm.ResourceVersion}, nil
}

// Delete removes the record of a Node if it still has the version that was read. It removes nothing else under that name. [ErrConflict]
// means that another client has written, replaced or removed it since. After any error, only a live read shows the state: an answer can get
// lost.
func (c *ConfigMaps) Delete(ctx context.Context, node, version string) error {
	if version == "" { // without one, the API server would remove whatever is there
		return fmt.Errorf("delete record of node %q: %w: no version was read", node, ErrConflict)
	}
	err := c.client.Delete(ctx, Name(node), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	if err != nil {
		return failed("delete record", node, err, apierrors.IsNotFound(err))
	}
	c.cache.removed(Name(node), version)
	return nil
}

// Accept writes down which side of a quarantined record is right, on the ConfigMap of the version that was read. Capture
// carries it out. [ErrConflict] means that the record has changed since.
func (c *ConfigMaps) Accept(ctx context.Context, node string, side Side, version string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version, "annotations": map[string]any{AcceptAnnotation: side}},
	})
	if err == nil {
		_, err = c.client.Patch(ctx, Name(node), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return failed("accept side", node, err, apierrors.IsNotFound(err))
	}
	return nil
}

// failed says what could not be done; with [ErrConflict] where another client was faster.
func failed(operation, node string, err error, faster bool) error {
	if faster || apierrors.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return fmt.Errorf("%s of node %q: %w", operation, node, err)
}

// Listed is a ConfigMap that is found as a record, readable or not.
type Listed struct {
	ConfigMap string // its name
	Node      string // whose record it is; of one that cannot be read, what its name says
	Entry     Entry
	Err       error // why nothing may be taken from it: [ErrUnreadable]; nil otherwise
}

// List reads one page of the records live, in the order of the ConfigMaps' names. That is the order of the Nodes' names, unless these are
// shortened; see [Name]. The options bound the page and continue where the last page ended.
func (c *ConfigMaps) List(ctx context.Context, options metav1.ListOptions) (page []Listed, meta metav1.ListMeta, err error) {
	options.LabelSelector = RecordLabel + "=true"
	list, err := c.client.List(ctx, options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	page = make([]Listed, len(list.Items))
	for i := range list.Items {
		page[i] = ListedOf(&list.Items[i])
	}
	return page, list.ListMeta, nil
}

// ListedOf reads one ConfigMap that is found as a record.
func ListedOf(cm *corev1.ConfigMap) Listed {
	node, stored := strings.TrimPrefix(cm.Name, namePrefix), documentOf(cm)
	r, err := stored.decode()
	if err == nil && Name(r.Node) == cm.Name {
		node = r.Node
	}
	r, err = verifyNode(node, r, err)
	return Listed{ConfigMap: cm.Name, Node: node, Entry: stored.entry(r, cm.ResourceVersion), Err: err}
}

// entryFrom reads the record of a Node whole.
func entryFrom(cm *corev1.ConfigMap, node string) (Entry, error) {
	stored := documentOf(cm)
	r, err := stored.decode()
	r, err = verifyNode(node, r, err)
	return stored.entry(r, cm.ResourceVersion), err
}

// entry returns a record that was read from the document.
func (d document) entry(r record.Record, version string) Entry {
	return Entry{Record: r, Version: version, AcceptedSide: d.side(r)}
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
