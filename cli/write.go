package cli

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/record"
)

// put writes a record over the version that was read, or a new one where that is empty.
func (c *cluster) put(ctx context.Context, r record.Record, version string) error {
	ctx, cancel := finish(ctx)
	defer cancel()
	verb := "patch"
	if version == "" {
		verb = "create"
	}
	_, err := c.records.Put(ctx, r, version)
	return c.failedWrite(c.toRecords(verb), "the record of node "+r.Node, err)
}

// otherState reports whether a patch of a Node failed because there is a newer state of it (409), another object of its name
// (422: its uid cannot be changed), or none.
func otherState(err error) bool {
	if apierrors.IsConflict(err) || gc.SaysGone(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldValueInvalid && cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}
