package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const usualLength = 20 << 10

// fill admits reviews of a length from an address until one does not fit.
func (l *Limits) fill(address string, length int64) (admitted []inFlight) {
	for {
		f, ok := l.admit(address, length)
		if !ok {
			return admitted
		}
		admitted = append(admitted, f)
	}
}

func TestWhateverCallersSendTheAPIServersUsualReviewFits(t *testing.T) {
	for name, length := range map[string]int64{
		"large reviews":                    6 << 20,
		"the largest reviews":              maxReviewBytes,
		"reviews of unknown length":        -1,
		"reviews just too large for usual": usualReviewBytes + 1,
		"the largest usual reviews":        usualReviewBytes,
		"usual reviews":                    usualLength,
		"empty reviews":                    0,
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLimits()
			item := l.fill("10.0.0.1:1000", length)
			require.NotEmpty(t, item)
			fits, ok := l.admit("10.0.0.9:443", usualLength)
			assert.True(t, ok, "one address fills no part")
			fits.release()
			rest := l.fill("10.0.0.2:1000", length)
			_, ok = l.admit("10.0.0.9:443", usualLength)
			assert.True(t, ok, "nor do two")
			assert.Len(t, rest, len(item), "each has the same share")
			if large := length < 0 || length > usualReviewBytes; large {
				for n := range 10 {
					l.fill(fmt.Sprintf("10.0.1.%d:1000", n), length)
				}
				_, ok = l.admit("10.0.0.9:443", usualLength)
				assert.True(t, ok, "large reviews of any number of addresses leave room for usual ones")
			}
		})
	}
}

func TestWhatWasAnsweredCountsNoLonger(t *testing.T) {
	l := NewLimits()
	for _, length := range []int64{0, usualLength, 6 << 20, -1} {
		first := l.fill("10.0.0.1:1000", length)
		for n := range first {
			first[n].release()
		}
		assert.Len(t, l.fill("10.0.0.1:1000", length), len(first))
	}
	l = NewLimits()
	f, ok := l.admit("10.0.0.1:1000", usualLength)
	require.True(t, ok)
	f.release()
	assert.True(t, l.usual.TryAcquire(usualBudget), "all of the budget is free again")
	assert.LessOrEqual(t, usualBudget+largeBudget, 64<<20)
	assert.Empty(t, l.callers, "no address is held in memory")
}

func TestOneAddressIsDecodedOnAFewTurnsAndOthersDoNotWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimits()
		waits := func(address string, length int64) bool {
			f, ok := l.admit(address, length)
			require.True(t, ok)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return f.begin(ctx) != nil
		}
		for range l.slots {
			assert.False(t, waits("10.0.0.1:1000", usualLength))
		}
		assert.True(t, waits("10.0.0.1:1001", usualLength), "another port is the same address")
		large, ok := l.admit("10.0.0.1:1001", usualReviewBytes+1)
		require.True(t, ok)
		require.NoError(t, large.begin(t.Context()), "large reviews have a turn of their own, for every address")
		large.end()
		assert.False(t, waits("10.0.0.2:1000", usualLength))
		assert.False(t, waits("10.0.0.3:1000", 6<<20), "which was released before the review was answered")
		assert.True(t, waits("10.0.0.4:1000", 6<<20), "one large review at a time")
		assert.False(t, waits("10.0.0.4:1000", usualLength), "which releases its turn when it times out")
	})
}

func TestATurnEndsWithTheReview(t *testing.T) {
	l := NewLimits()
	for range 3 * maxSlots {
		f, ok := l.admit("10.0.0.1:1000", 6<<20)
		require.True(t, ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.NoError(t, f.begin(ctx))
		f.release()
		cancel()
	}
}

// Decoding makes thirty bytes of one where a list holds empty taints.
func TestALargeReviewThatDecodingMultipliesIsNotDecoded(t *testing.T) {
	review := func(groups, object string) []byte {
		return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"userInfo":{"groups":[` + groups + `"a"]},"object":{"a":[` + object + `1]}}}`)
	}
	for name, body := range map[string][]byte{
		"empty groups":  review(strings.Repeat(`"",`, mostQuotes/2), ""),
		"empty objects": review("", strings.Repeat(`{},`, mostStructures)),
		"empty lists":   review("", strings.Repeat(`[],`, mostStructures)),
	} {
		_, err := DecodeReview(body)
		require.ErrorContains(t, err, "than the largest Node", name)
	}
	_, err := DecodeReview(review(strings.Repeat(`"",`, 300_000), strings.Repeat(`{},`, mostStructures-10)))
	assert.NoError(t, err)
}

// What is too large for any Node is not decoded.
func TestAPartThatNoNodeCanHaveIsNotDecoded(t *testing.T) {
	node := func(bytes int) []byte {
		return []byte(`{"metadata":{"name":"a"},"spec":{"taints":[` + strings.Repeat("{},", bytes/3) + `{}]}}`)
	}
	_, err := decodeNode(node(maxPartBytes+100), looking(t))
	require.Error(t, err)
	decoded, err := decodeNode(node(maxPartBytes-100), looking(t))
	require.NoError(t, err)
	assert.NotEmpty(t, decoded.Spec.Taints)
	large, err := decodeNode([]byte(`{"metadata":{"name":"a"},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},"status":"`+strings.Repeat("x", maxPartBytes)+`"}`), looking(t))
	require.NoError(t, err, "a large status is skipped, as ever")
	assert.Equal(t, "a", large.Metadata.Name)
	assert.Equal(t, "k", large.Spec.Taints[0].Key)
}
