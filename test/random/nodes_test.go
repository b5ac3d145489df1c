package random

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettle(t *testing.T) {
	type look struct{ wrong, versions map[string]string }
	rest, wrong := map[string]string{"a": "1"}, map[string]string{"a": "the gate is on"}
	for name, test := range map[string]struct {
		look func(count int) look
		want []string
	}{
		"at rest":          {func(int) look { return look{nil, rest} }, nil},
		"wrong at first":   {func(count int) look { return look{map[int]map[string]string{0: wrong}[count], rest} }, nil},
		"wrong to the end": {func(int) look { return look{wrong, rest} }, []string{"a"}},
		"written again and again": {func(count int) look {
			return look{nil, map[string]string{"a": "1", "b": time.Duration(count).String()}}
		}, []string{"b"}},
		"there and gone, in every look": {func(count int) look { return look{nil, map[int]map[string]string{0: rest}[count%2]} }, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := -1
				got, err := Settle(time.Minute, func() (wrong, versions map[string]string, err error) {
					count++
					l := test.look(count)
					return l.wrong, l.versions, nil
				})
				require.NoError(t, err)
				require.Len(t, got, len(test.want))
				for _, object := range test.want {
					assert.Contains(t, got, object)
				}
				assert.Positive(t, count, "one look does not show that nothing is written")
			})
		})
	}
	_, err := Settle(time.Minute, func() (wrong, versions map[string]string, err error) { return nil, nil, errors.New("no API server") })
	require.Error(t, err)
}
