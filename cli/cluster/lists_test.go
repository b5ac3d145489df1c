package cluster

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"nodekeep.dev/nodekeep/store"
)

// numbered returns a list of that many Nodes, whose names are numbers, as the API server would page it. fail may answer a page in its
// place.
func numbered(t *testing.T, plural int, fail func(from int, token string) error) pager.ListPageFunc {
	return func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
		assert.EqualValues(t, pageSize, options.Limit)
		from := 0
		if options.Continue != "" {
			var err error
			if from, err = strconv.Atoi(options.Continue[1:]); err != nil {
				return nil, err
			}
		}
		if fail != nil {
			if err := fail(from, options.Continue); err != nil {
				return nil, err
			}
		}
		page := &corev1.NodeList{}
		for n := from; n < min(plural, from+pageSize); n++ {
			page.Items = append(page.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(n)}})
		}
		if from+pageSize < plural {
			page.Continue = "c" + strconv.Itoa(from+pageSize)
		}
		return page, nil
	}
}

// requireReads reads a list, which must hold the numbers from 0 on and may end with an error.
func requireReads(t *testing.T, plural int, list pager.ListPageFunc) (failed error) {
	t.Helper()
	read := 0
	for node, err := range listPages[*corev1.Node](t.Context(), list) {
		require.NoError(t, failed, "an error ends the list")
		if failed = err; err == nil {
			require.Equal(t, strconv.Itoa(read), node.Name)
			read++
		}
	}
	require.Equal(t, plural, read)
	return failed
}

func TestAListIsReadPageByPage(t *testing.T) {
	for _, plural := range []int{0, 1, pageSize - 1, pageSize, pageSize + 1, 5*pageSize + 7} {
		require.NoError(t, requireReads(t, plural, numbered(t, plural, nil)))
	}
}

func TestAListGoesOnWhereItsMomentIsForgotten(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	expired.ErrStatus.Continue = "l" + strconv.Itoa(pageSize) // a later state, from the same place on
	require.NoError(t, requireReads(t, 3*pageSize, numbered(t, 3*pageSize, func(_ int, token string) error {
		if token == "c"+strconv.Itoa(pageSize) {
			return expired
		}
		return nil
	})))
}

func TestAListThatBreaksOffSaysSoBehindWhatWasRead(t *testing.T) {
	for name, broken := range map[string]error{"for some reason": errors.New("broken"), "forgotten, and nothing offered": apierrors.NewResourceExpired("too old")} {
		t.Run(name, func(t *testing.T) {
			failed := requireReads(t, pageSize, numbered(t, 3*pageSize, func(from int, _ string) error {
				if from == pageSize {
					return broken
				}
				return nil
			}))
			require.ErrorIs(t, failed, broken)
		})
	}
}

func TestOnlyAFewPagesAreReadAhead(t *testing.T) {
	pages := make(chan int, 100)
	for node, err := range listPages[*corev1.Node](t.Context(), numbered(t, 50*pageSize, func(from int, _ string) error { pages <- from; return nil })) {
		require.NoError(t, err)
		if node.Name == "250" {
			break
		}
	}
	assert.LessOrEqual(t, len(pages), 4)
}

func TestAListThatIsInterruptedNeverLooksComplete(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		list := func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		go cancel()
		var failed error
		for _, err := range listPages[*corev1.Node](ctx, list) {
			failed = err
		}
		require.ErrorIs(t, failed, context.Canceled)
	}
}

func TestNodesAreListedToTheirEndWhereRecordsCannotBe(t *testing.T) {
	broken := errors.New("jane may not list configmaps")
	nodes := listPages[*corev1.Node](t.Context(), numbered(t, pageSize+1, nil))
	records := func(yield func(store.Listed, error) bool) {
		_ = yield(store.Listed{Node: "0", ConfigMap: store.Name("0")}, nil) && yield(store.Listed{}, broken)
	}
	var noted error
	var read, recorded int
	for state, err := range mergeLists(nodes, stopAtError(records, &noted)) {
		require.NoError(t, err)
		if read++; state.Record != nil {
			recorded++
		}
	}
	assert.Equal(t, []int{pageSize + 1, 1}, []int{read, recorded})
	assert.Equal(t, broken, noted)
}
