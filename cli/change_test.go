package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/store"
)

func TestAChangeThatIsOvertakenIsTriedAgainAsLongAsThePlanStaysTheSame(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	otherUID := apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n1", nil)
	otherUID.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}}
	conflict, failure := apierrors.NewConflict(nodes, "n1", errors.New("newer")), errors.New("down")
	a, b := 1, 2
	for name, c := range map[string]struct {
		reads   []*int  // the last one repeats
		results []error // the same
		want    error
		done    int // attempts
	}{
		"at once":                        {reads: []*int{&a}, results: []error{nil}, done: 1},
		"there is nothing to do":         {reads: []*int{nil}, results: []error{nil}},
		"a newer state, the same plan":   {reads: []*int{&a}, results: []error{conflict, nil}, done: 2},
		"another record, the same plan":  {reads: []*int{&a}, results: []error{store.ErrConflict, nil}, done: 2},
		"another object, the same plan":  {reads: []*int{&a}, results: []error{otherUID, nil}, done: 2},
		"no object any more":             {reads: []*int{&a, nil}, results: []error{apierrors.NewNotFound(nodes, "n1")}, done: 1},
		"another plan":                   {reads: []*int{&a, &b}, results: []error{conflict, nil}, want: errChangedMeanwhile, done: 1},
		"a newer state, again and again": {reads: []*int{&a}, results: []error{conflict}, want: errTooManyConflicts, done: maxConflictRetries},
		"an error":                       {reads: []*int{&a}, results: []error{failure}, want: failure, done: 1},
		"an invalid change":              {reads: []*int{&a}, results: []error{apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n1", nil)}, want: apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n1", nil), done: 1},
	} {
		t.Run(name, func(t *testing.T) {
			read, asked, done := 0, 0, 0
			err := change(t.Context(), func(context.Context) (*proposal, error) {
				match := c.reads[min(read, len(c.reads)-1)]
				if read++; match == nil {
					return nil, nil
				}
				return &proposal{fingerprint: *match, apply: func(context.Context) error {
					err := c.results[min(done, len(c.results)-1)]
					done++
					return err
				}}, nil
			}, func(context.Context, *proposal) error { asked++; return nil })
			assert.Equal(t, c.want, err)
			assert.Equal(t, c.done, done)
			assert.Equal(t, min(1, c.done), asked, "it asks once")
		})
	}
}

func TestAChangeIsNotMadeWithoutAYes(t *testing.T) {
	err := change(t.Context(), func(context.Context) (*proposal, error) {
		return &proposal{apply: func(context.Context) error { assert.Fail(t, "it was made"); return nil }}, nil
	}, func(context.Context, *proposal) error { return errNotConfirmed })
	require.ErrorIs(t, err, errNotConfirmed)
}

func TestAStepThatWasStartedIsFinishedAlsoAfterCtrlCButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		start := time.Now()
		step, cancel := withoutInterrupt(ctx)
		defer cancel()
		time.AfterFunc(time.Second, interrupt)
		<-step.Done()
		assert.Equal(t, time.Second+interruptGrace, time.Since(start))
		err := (&session{}).explainWriteError(doctor.Right{}, "the record of Node n1", step.Err())
		require.ErrorContains(t, err, "interrupted while the record of Node n1 was being changed")
		code, _ := ExitCode(err)
		assert.Equal(t, exitInterrupted, code)
	})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		step, cancel := withoutInterrupt(t.Context())
		defer cancel()
		<-step.Done()
		assert.Equal(t, stepTimeout, time.Since(start))
		assert.ErrorContains(t, (&session{}).explainWriteError(doctor.Right{}, "the record of Node n1", step.Err()), "may have been changed or not")
	})
}
