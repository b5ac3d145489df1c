package cli

import (
	"context"
	"errors"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pageSize is how many objects are read at once.
const pageSize = 500

// listing reads one page of a list.
type listing[T any] func(ctx context.Context, options metav1.ListOptions) (items []T, meta metav1.ListMeta, err error)

// page is one page of a list, or why it could not be read.
type page[T any] struct {
	items []T
	err   error
}

// all goes through a list page by page; the next page is read while one is worked on. An error ends it.
//
// Where somebody takes so long over a page (a pager, say) that the API server has forgotten the moment that the list is of,
// it goes on with a later one, as the API server offers: some lines are of a later state then, and none is missing.
func all[T any](ctx context.Context, list listing[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		enough := make(chan struct{})
		defer close(enough)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pages := make(chan page[T], 1)
		go func() {
			defer close(pages)
			readPages(ctx, list, pages, enough)
		}()
		for p := range pages {
			if p.err != nil {
				var none T
				yield(none, p.err)
				return
			}
			for _, item := range p.items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// readPages reads until the end, an error, or until it is enough. That ctx is done is an error like any other: a list that was
// interrupted must not look like one that is complete.
func readPages[T any](ctx context.Context, list listing[T], pages chan<- page[T], enough <-chan struct{}) {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		items, meta, err := list(ctx, options)
		if next, offered := laterState(err); offered && next != options.Continue {
			options.Continue = next
			continue
		}
		select {
		case pages <- page[T]{items, err}:
		case <-enough:
			return
		}
		if err != nil || meta.Continue == "" {
			return
		}
		options.Continue = meta.Continue
	}
}

// laterState finds the offer to go on with a later state of the list.
func laterState(err error) (next string, offered bool) {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return "", false
	}
	next = status.Status().Continue
	return next, next != ""
}
