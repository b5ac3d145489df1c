package store

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// ConfigMapNotes are the ConfigMaps of the release namespace in which processes note what is in force. Any goroutine may use it.
type ConfigMapNotes struct {
	Client       kubernetes.Interface
	Namespace    string
	FieldManager string // of the writes
}

// Get reads a ConfigMap; nil: there is none.
func (n ConfigMapNotes) Get(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	found, err := n.Client.CoreV1().ConfigMaps(n.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get configmap %q: %w", name, err)
	}
	return found, nil
}

// Set sets keys of a ConfigMap, and removes those whose value is nil. If it does not exist, it is created. Otherwise this is a patch, because
// capture needs no right to update ConfigMaps.
func (n ConfigMapNotes) Set(ctx context.Context, name string, exists bool, data map[string]*string) (err error) {
	configMaps := n.Client.CoreV1().ConfigMaps(n.Namespace)
	if exists {
		body, encodeErr := json.Marshal(map[string]any{"data": data})
		if encodeErr != nil {
			return fmt.Errorf("encode configmap %q: %w", name, encodeErr)
		}
		_, err = configMaps.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: n.FieldManager})
	} else {
		created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.Namespace}, Data: map[string]string{}}
		for key, value := range data {
			if value != nil {
				created.Data[key] = *value
			}
		}
		_, err = configMaps.Create(ctx, created, metav1.CreateOptions{FieldManager: n.FieldManager})
	}
	if err != nil {
		return fmt.Errorf("write configmap %q: %w", name, err)
	}
	return nil
}

// PatchOf sets a key of a ConfigMap in exactly the state that was read. It is a patch, because capture and operators need no right to update
// ConfigMaps.
func PatchOf(state *corev1.ConfigMap, key, value string) []byte {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": state.UID, "resourceVersion": state.ResourceVersion},
		"data":     map[string]string{key: value},
	})
	if err != nil {
		panic("marshal patch: " + err.Error()) // cannot happen: texts
	}
	return patch
}
