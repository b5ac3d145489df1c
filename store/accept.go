package store

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Accept writes down which side of a quarantined record is right, on the ConfigMap of the version that was read. Capture
// carries it out. [ErrConflict] means that the record has changed since.
func (c *ConfigMaps) Accept(ctx context.Context, node string, side Side, version string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version, "annotations": map[string]any{AcceptAnnotation: side}},
	})
	if err != nil {
		return fmt.Errorf("accept side of node %q: %w", node, err)
	}
	_, err = c.client.Patch(ctx, Name(node), types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("accept side of node %q: %w: %w", node, ErrConflict, err)
	case err != nil:
		return fmt.Errorf("accept side of node %q: %w", node, err)
	}
	return nil
}
