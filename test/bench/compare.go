package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// parts are what builds are compared in, in this order.
var parts = []struct {
	name string
	run  func(*bench, context.Context, []*side)
}{
	{"writes", (*bench).compareWrites},
	{"failover", (*bench).compareFailover},
	{"memory", (*bench).compareMemory},
}

func partNames() (names []string) {
	for _, part := range parts {
		names = append(names, part.name)
	}
	return names
}

// readParts reads names of parts, comma-separated.
func readParts(list string) ([]string, error) {
	chosen := strings.Split(list, ",")
	for _, word := range chosen {
		if !slices.Contains(partNames(), word) {
			return nil, fmt.Errorf("%q is none of %s", word, strings.Join(partNames(), ", "))
		}
	}
	return chosen, nil
}

// compare measures builds of nodekeep in turn.
func (b *bench) compare(ctx context.Context) {
	sides := b.startSides(ctx)
	for _, part := range parts {
		if slices.Contains(b.parts, part.name) {
			part.run(b, ctx, sides)
		}
	}
	b.phase("done")
}
