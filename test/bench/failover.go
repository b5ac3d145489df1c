package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
)

// failover takes the leading capture away, once by killing it and once by telling it to stop, while a standby is ready, and
// measures until the standby leads and until a label that was changed at that moment is in its record.
func (b *bench) failover(ctx context.Context, leader *bed.Program, nodes []string) error {
	table := measure.NewTable(b.out, "Failover of capture, with a standby that is ready", "the leader", "until the standby leads", "until a label changed at that moment is in its record")
	for n, way := range []struct {
		name   string
		signal syscall.Signal
	}{{"is killed", syscall.SIGKILL}, {"is told to stop", syscall.SIGTERM}} {
		standby, err := b.StartCapture(ctx, fmt.Sprintf("-standby-%d", n+1))
		if err != nil {
			return err
		}
		b.started("standby", fmt.Sprintf("%d Nodes, %d records, a leader", b.nodes, b.nodes), standby)
		if err := b.rest(ctx, standby, "standby"); err != nil {
			return err
		}
		leads, err := leading(ctx, standby)
		if err != nil {
			return err
		}
		if leads {
			return errors.New("the standby leads beside a leader")
		}
		b.phase("the leader %s", way.name)
		until, follows, err := b.takeAway(ctx, leader, standby, way.signal, nodes[n])
		if err != nil {
			return fmt.Errorf("the leader %s: %w", way.name, err)
		}
		table.Row(way.name, measure.Seconds(until), measure.Seconds(follows))
		if err := b.remember(standby, "has come to lead"); err != nil {
			return err
		}
		leader = standby
	}
	table.Flush()
	return nil
}

// takeAway ends the leader and waits for what the standby does.
func (b *bench) takeAway(ctx context.Context, leader, standby *bed.Program, signal syscall.Signal, node string) (leads, follows time.Duration, err error) {
	ended := make(chan error, 1)
	began := time.Now()
	if signal == syscall.SIGKILL {
		go func() { ended <- leader.Kill() }()
	} else {
		go func() { ended <- leader.Stop() }()
	}
	if signal == syscall.SIGKILL {
		if err := <-ended; err != nil { // a change that it still sees does not count
			return 0, 0, err
		}
	}
	value := strconv.FormatInt(began.UnixNano(), 36)
	if err := b.Label(ctx, node, changedLabel, value); err != nil {
		return 0, 0, err
	}
	err = bed.Await(ctx, patience, 20*time.Millisecond, func(ctx context.Context) (bool, error) {
		if leads == 0 {
			yes, err := leading(ctx, standby)
			if err != nil {
				return false, err
			}
			if yes {
				leads = time.Since(began)
			}
		}
		record, err := b.Record(ctx, node)
		if err == nil && follows == 0 && record.Items()[changedLabel] == value {
			follows = time.Since(began)
		}
		return leads > 0 && follows > 0, err
	})
	if err == nil && signal != syscall.SIGKILL {
		err = <-ended
	}
	return leads, follows, err
}

func leading(ctx context.Context, capture *bed.Program) (bool, error) {
	series, err := capture.Series(ctx)
	return series.Sum("nodekeep_capture_leading") == 1, err
}
