package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// allParts are what builds are compared in, in this order.
var allParts = []string{"writes", "failover", "memory"}

func parts(list string) (chosen []string, err error) {
	for word := range strings.SplitSeq(list, ",") {
		if !slices.Contains(allParts, word) {
			return nil, fmt.Errorf("%q is none of %s", word, strings.Join(allParts, ", "))
		}
		chosen = append(chosen, word)
	}
	return chosen, nil
}

// compare measures builds of nodekeep in turn.
func (b *bench) compare(ctx context.Context) (err error) {
	sides, err := b.startSides(ctx)
	defer func() {
		for _, s := range sides {
			err = errors.Join(err, s.Close())
		}
	}()
	if err != nil {
		return err
	}
	if slices.Contains(b.parts, "writes") {
		if err := b.compareWrites(ctx, sides); err != nil {
			return err
		}
	}
	if slices.Contains(b.parts, "failover") {
		if err := b.compareFailover(ctx, sides); err != nil {
			return err
		}
	}
	if slices.Contains(b.parts, "memory") {
		if err := b.compareMemory(ctx, sides); err != nil {
			return err
		}
	}
	b.phase("done")
	return nil
}
