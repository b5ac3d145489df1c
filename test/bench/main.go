package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"nodekeep.dev/nodekeep/test/bench/bed"
)

// programs are what can be run, by the first argument.
var programs = map[string]func(*bench, context.Context){
	"capture":    (*bench).firstCaptures,
	"compare":    (*bench).compare,
	"create":     (*bench).create,
	"growth":     (*bench).growth,
	"governance": (*bench).governance,
	"guards":     (*bench).guards,
	"list":       (*bench).list,
	"readiness":  (*bench).readiness,
	"scale":      (*bench).scale,
	"steady":     (*bench).steadyAlone,
	"verify":     (*bench).verify,
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == bed.ReferenceCommand {
		// Before signals are caught: it ends at the first one, with nothing to clean up.
		fmt.Fprintln(os.Stderr, bed.ServeReference(os.Args[2], os.Args[3], os.Args[4]))
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == bed.InformerCommand {
		fmt.Fprintln(os.Stderr, bed.WatchNodes(os.Args[2]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || programs[args[0]] == nil {
		return fmt.Errorf("say what to measure: %s; -h lists the flags of each", strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
	}
	s, err := readSettings(args[0], args[1:])
	if err != nil {
		return err
	}
	return bed.Start(func(run *bed.Run) { programs[args[0]](newBench(ctx, run, s), ctx) })
}
