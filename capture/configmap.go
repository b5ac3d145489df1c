package capture

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
)

// configMap reads a ConfigMap of the release namespace; nil: there is none.
func (c *Controller) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	found, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get configmap %q: %w", name, err)
	}
	return found, nil
}

// writeConfigMap sets keys of a ConfigMap, and removes those whose value is nil. If it does not exist, it is created. Otherwise this is a
// patch, because capture needs no right to update ConfigMaps.
func (c *Controller) writeConfigMap(ctx context.Context, name string, exists bool, data map[string]*string) (err error) {
	configMaps := c.Client.CoreV1().ConfigMaps(c.Namespace)
	if exists {
		body, encodeErr := json.Marshal(map[string]any{"data": data})
		if encodeErr != nil {
			return fmt.Errorf("encode configmap %q: %w", name, encodeErr)
		}
		_, err = configMaps.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: observe.FieldManager})
	} else {
		created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace}, Data: map[string]string{}}
		for key, value := range data {
			if value != nil {
				created.Data[key] = *value
			}
		}
		_, err = configMaps.Create(ctx, created, metav1.CreateOptions{FieldManager: observe.FieldManager})
	}
	if err != nil {
		return fmt.Errorf("write configmap %q: %w", name, err)
	}
	return nil
}
