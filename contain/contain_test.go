package contain_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/contain"
)

func explode() { panic("this object") }

func TestAPanicIsAnErrorThatHoldsTheStack(t *testing.T) {
	err := contain.Call(func() error { explode(); return nil })
	panicked, ok := contain.IsPanic(fmt.Errorf("reconcile node: %w", err))
	require.True(t, ok)
	assert.Equal(t, "this object", panicked.Value)
	assert.Contains(t, panicked.Stack, "contain_test.explode", "the stack of the panic, not of the recovery")
	require.EqualError(t, err, "panic: this object")

	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Error("contained", "error", err)
	assert.Contains(t, log.String(), "contain_test.explode")
}

func TestARuntimeErrorIsContainedToo(t *testing.T) {
	var nodes map[string]int
	_, ok := contain.IsPanic(contain.Call(func() error { nodes["n"] = 1; return nil }))
	assert.True(t, ok)
}

func TestAnOrdinaryErrorIsReturnedAsItIs(t *testing.T) {
	want := errors.New("not found")
	err := contain.Call(func() error { return want })
	assert.Equal(t, want, err)
	_, ok := contain.IsPanic(err)
	assert.False(t, ok)
	assert.NoError(t, contain.Call(func() error { return nil }))
}

func TestAnEventThatPanicsIsReportedAndTheNextOneIsHandled(t *testing.T) {
	var handled, reported []any
	handle := func(object any) {
		if object == "bad" {
			explode()
		}
		handled = append(handled, object)
	}
	handlers := contain.Handlers(cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, newObject any) { handle(newObject) }, DeleteFunc: handle,
	}, func(object any, err error) {
		_, ok := contain.IsPanic(err)
		assert.True(t, ok)
		reported = append(reported, object)
	})
	for _, object := range []any{"bad", "good"} {
		handlers.OnAdd(object, true)
		handlers.OnUpdate("before", object)
		handlers.OnDelete(object)
	}
	assert.Equal(t, []any{"good", "good", "good"}, handled)
	assert.Equal(t, []any{"bad", "bad", "bad"}, reported)
}
