package main

import (
	"context"
	"fmt"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// listed are the commands that are measured.
func listed() [][]string {
	return [][]string{{"list"}, {"list", "--stale"}, {"list", "-o", "name"}, {"list", "-o", "json"}, {"__complete", "show", "node-0000"}}
}

// list measures the operator's commands that read everything. It has as many records as -nodes and no Nodes, then as many Nodes as well.
func (b *bench) list(ctx context.Context) error {
	names := bed.Names("node", b.nodes)
	load, err := b.AddRecords(ctx, names)
	if err != nil {
		return err
	}
	b.done("records written", load)
	table := measure.NewTable(b.out, "List: the operator's commands that read everything", "command", "there are", "first line", "end", "lines", "memory")
	run := func(there string) error {
		for _, command := range listed() {
			answered, err := b.Tool(ctx, command...)
			if err != nil {
				return err
			}
			table.Row(fmt.Sprint(command), there, measure.Seconds(answered.First), measure.Seconds(answered.Took), answered.Lines, measure.Mebibytes(answered.Peak))
			b.phase("%v ended after %s", command, measure.Seconds(answered.Took))
		}
		return nil
	}
	if err := run(fmt.Sprintf("%d records", b.nodes)); err != nil {
		return err
	}
	if load, err = b.AddNodes(ctx, names); err != nil {
		return err
	}
	b.done("Nodes made", load)
	b.controlPlane()
	if err := run(fmt.Sprintf("%d records and Nodes", b.nodes)); err != nil {
		return err
	}
	table.Flush()
	return nil
}
