package store

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Listed is a ConfigMap that is found as a record, readable or not.
type Listed struct {
	ConfigMap string // its name
	Node      string // whose record it is; of one that cannot be read, what its name says
	Entry     Entry
	Err       error // why nothing may be taken from it: [ErrUnreadable]; nil otherwise
}

// List reads one page of the records live, in the order of the ConfigMaps' names, which is that of the Nodes' names where
// these are not shortened; see [Name]. The options bound the page and go on where the last one ended.
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
	node := strings.TrimPrefix(cm.Name, namePrefix)
	if r, err := documentOf(cm).decode(); err == nil && Name(r.Node) == cm.Name {
		node = r.Node
	}
	entry, err := entryFrom(cm, node)
	return Listed{ConfigMap: cm.Name, Node: node, Entry: entry, Err: err}
}
