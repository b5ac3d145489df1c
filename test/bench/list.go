package main

import (
	"context"
	"fmt"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// listed are the commands that are measured.
var listed = [][]string{{"list"}, {"list", "--waiting", "stale"}, {"list", "-o", "name"}, {"list", "-o", "json"}, {"__complete", "show", "node-0000"}}

// list measures the operator's commands that read everything. It has as many records as -nodes and no Nodes, then as many Nodes as well.
func (b *bench) list(ctx context.Context) {
	table := b.table("List: the operator's commands that read everything", "command", "there are", "first line", "end", "lines", "memory")
	run := func(place string) {
		for _, command := range listed {
			answered := b.Tool(ctx, command...)
			table.Row(fmt.Sprint(command), place, measure.Seconds(answered.First), measure.Seconds(answered.Took), answered.Lines, measure.Mebibytes(answered.Peak))
			b.phase("%v ended after %s", command, measure.Seconds(answered.Took))
		}
	}
	b.done("records written", b.AddRecords(ctx, bed.Names("node", b.nodes)))
	run(fmt.Sprintf("%d records", b.nodes))
	b.population(ctx)
	b.controlPlane()
	run(fmt.Sprintf("%d records and Nodes", b.nodes))
	table.Flush()
}
