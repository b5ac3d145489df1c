package main

import (
	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// memoryRow is the memory of a process at a moment.
type memoryRow struct {
	process, moment string
	usage           measure.Usage
}

// remember notes what a process has come to and starts its peak anew.
func (b *bench) remember(p *bed.Program, moment string) error {
	usage, err := p.Usage()
	if err != nil {
		return err
	}
	b.memory = append(b.memory, memoryRow{p.Name(), moment, usage})
	b.phase("%s, %s: %s resident, at most %s", p.Name(), moment, measure.Mebibytes(usage.Resident), measure.Mebibytes(usage.Peak))
	return measure.ForgetPeak(p.Pid())
}

func (b *bench) printMemory() {
	table := measure.NewTable(b.out, "Memory", "process", "moment", "resident", "peak since the row before")
	for _, row := range b.memory {
		table.Row(row.process, row.moment, measure.Mebibytes(row.usage.Resident), measure.Mebibytes(row.usage.Peak))
	}
	table.Flush()
}
