package differential

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"nodekeep.dev/nodekeep/test/harness"
)

// state is where a process is.
type state string

const (
	stopped  state = "down"
	running  state = "up"
	starting state = "starting"
	stopping state = "stopping"
)

// process is one of nodekeep's two, and where it is.
type process struct {
	start func(context.Context) error
	stop  func() error
	kill  func() error

	mu      sync.Mutex
	state   state
	changes int // of the state
	stops   int
}

// moment is a process at one time.
type moment struct {
	state          state
	changes, stops int
}

func (p *process) now() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return moment{p.state, p.changes, p.stops}
}

// upSince reports whether the process was up all the time.
func (p *process) upSince(prev moment) bool {
	now := p.now()
	return now.state == running && now.changes == prev.changes
}

func (p *process) becomes(s state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	p.changes++
	if s == stopping {
		p.stops++
	}
}

// disturbed notes that the process may have missed something although it is up.
func (p *process) disturbed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	p.stops++
}

// bring takes the process to where it should be; again restarts it where it is up and stays up.
func (p *process) bring(ctx context.Context, wantUp, retry, abruptly bool) error {
	isUp := p.now().state == running
	if isUp && (!wantUp || retry) {
		stop := p.stop
		if abruptly {
			stop = p.kill
		}
		p.becomes(stopping)
		if err := stop(); err != nil {
			return err
		}
		p.becomes(stopped)
		isUp = false
	}
	if !isUp && wantUp {
		p.becomes(starting)
		if err := p.start(ctx); err != nil {
			return err
		}
		p.becomes(running)
	}
	return nil
}

// processes are both, on one installation.
type processes struct {
	webhook, capture *process
	nodekeep         *harness.Installation
	paused           bool // capture
}

// pause has capture stand still, if it is up. It is slow then, not down: what it misses comes to it all at once.
func (p *processes) pause() error {
	if p.paused || p.capture.now().state != running {
		return nil
	}
	p.paused = true
	return p.nodekeep.Cluster.Process("nodekeep-capture").Pause()
}

func (p *processes) resume() error {
	if !p.paused {
		return nil
	}
	p.paused = false
	return p.nodekeep.Cluster.Process("nodekeep-capture").Resume()
}

func processesOf(nodekeep *harness.Installation) *processes {
	kill := func() error { return nodekeep.Cluster.Process("nodekeep-webhook").Kill() }
	return &processes{
		nodekeep: nodekeep,
		webhook:  &process{state: stopped, start: nodekeep.StartWebhook, stop: nodekeep.StopWebhook, kill: kill},
		capture:  &process{state: stopped, start: nodekeep.StartCapture, stop: nodekeep.StopCapture, kill: nodekeep.StopCapture},
	}
}

// bring takes both to where a part wants them.
func (p *processes) bring(ctx context.Context, to part) error {
	var group sync.WaitGroup
	var webhook, capture error
	group.Go(func() { webhook = p.webhook.bring(ctx, to.webhook, to.restartWebhook, to.killWebhook) })
	group.Go(func() {
		if !to.capture || to.restartCapture {
			capture = p.resume() // or it could not stop
		}
		capture = errors.Join(capture, p.capture.bring(ctx, to.capture, to.restartCapture, false))
	})
	group.Wait()
	return errors.Join(webhook, capture)
}

func (p *processes) String() string {
	return fmt.Sprintf("webhook %s, capture %s", p.webhook.now().state, p.capture.now().state)
}
