package cli

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// numbers is a list of so many numbers, as the API server would page it. fail may answer a page in its place.
func numbers(t *testing.T, many int, fail func(from int, token string) error) listing[int] {
	return func(_ context.Context, options metav1.ListOptions) ([]int, metav1.ListMeta, error) {
		assert.EqualValues(t, pageSize, options.Limit)
		from := 0
		if options.Continue != "" {
			var err error
			if from, err = strconv.Atoi(options.Continue[1:]); err != nil {
				return nil, metav1.ListMeta{}, err
			}
		}
		if fail != nil {
			if err := fail(from, options.Continue); err != nil {
				return nil, metav1.ListMeta{}, err
			}
		}
		var page []int
		for n := from; n < min(many, from+pageSize); n++ {
			page = append(page, n)
		}
		if from+pageSize < many {
			return page, metav1.ListMeta{Continue: "c" + strconv.Itoa(from+pageSize)}, nil
		}
		return page, metav1.ListMeta{}, nil
	}
}

func collect(t *testing.T, list listing[int]) (read []int, failed error) {
	t.Helper()
	for n, err := range all(t.Context(), list) {
		if err != nil {
			require.NoError(t, failed, "an error ends the list")
			failed = err
			continue
		}
		read = append(read, n)
	}
	return read, failed
}

func requireUpTo(t *testing.T, many int, read []int) {
	t.Helper()
	require.Len(t, read, many)
	for i, n := range read {
		require.Equal(t, i, n)
	}
}

func TestAListIsReadPageByPage(t *testing.T) {
	for _, many := range []int{0, 1, pageSize - 1, pageSize, pageSize + 1, 5*pageSize + 7} {
		read, err := collect(t, numbers(t, many, nil))
		require.NoError(t, err)
		requireUpTo(t, many, read)
	}
}

func TestAListGoesOnWhereItsMomentIsForgotten(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	expired.ErrStatus.Continue = "l" + strconv.Itoa(pageSize) // a later state, from the same place on
	read, err := collect(t, numbers(t, 3*pageSize, func(_ int, token string) error {
		if token == "c"+strconv.Itoa(pageSize) {
			return expired
		}
		return nil
	}))
	require.NoError(t, err)
	requireUpTo(t, 3*pageSize, read)
}

func TestAListThatBreaksOffSaysSoBehindWhatWasRead(t *testing.T) {
	broken := errors.New("broken")
	for name, err := range map[string]error{"for some reason": broken, "forgotten, and nothing offered": apierrors.NewResourceExpired("too old")} {
		t.Run(name, func(t *testing.T) {
			read, failed := collect(t, numbers(t, 3*pageSize, func(from int, _ string) error {
				if from == pageSize {
					return err
				}
				return nil
			}))
			require.ErrorIs(t, failed, err)
			requireUpTo(t, pageSize, read)
		})
	}
}

func TestNothingMoreIsReadThanOnePageAhead(t *testing.T) {
	pages := make(chan int, 100)
	for n, err := range all(t.Context(), numbers(t, 50*pageSize, func(from int, _ string) error { pages <- from; return nil })) {
		require.NoError(t, err)
		if n == pageSize/2 {
			break
		}
	}
	assert.LessOrEqual(t, len(pages), 4)
}

func TestAListThatIsInterruptedNeverLooksComplete(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		list := func(ctx context.Context, _ metav1.ListOptions) ([]int, metav1.ListMeta, error) {
			<-ctx.Done()
			return nil, metav1.ListMeta{}, ctx.Err()
		}
		go cancel()
		var failed error
		for _, err := range all(ctx, list) {
			failed = err
		}
		require.ErrorIs(t, failed, context.Canceled)
	}
}
