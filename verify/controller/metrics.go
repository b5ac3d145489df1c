package controller

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/verify"
)

// Metrics are the series of verification. They are by profile; none carries a Node's name.
type Metrics struct {
	registry  prometheus.Registerer
	attempts  *prometheus.CounterVec
	results   *prometheus.CounterVec
	ended     *prometheus.CounterVec
	removals  *prometheus.CounterVec
	verified  *prometheus.HistogramVec
	podStart  *prometheus.HistogramVec
	garbage   prometheus.Counter
	conflicts prometheus.Counter
	failures  prometheus.Counter
	panics    prometheus.Counter
}

// NewMetrics registers the series; those by profile get a first value of 0 with the policy.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		registry: registry,
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_verify_attempts_total", Help: "Attempts to verify a Node, by profile and by what came of them.",
		}, []string{"profile", "verdict"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_verify_results_total", Help: "Results of checks, by profile, check and outcome.",
		}, []string{"profile", "check", "outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_verify_ended_total", Help: "Nodes whose verification ended without a passed attempt, by profile and how.",
		}, []string{"profile", "how"}),
		removals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_verify_removals_total", Help: "Decisions to remove a Node that failed its checks, by onFailure and by what came of them.",
		}, []string{"kind", "outcome"}),
		verified: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nodekeep_verify_ready_to_verified_seconds", Help: "Time from the moment that a Node became Ready to the removal of its taint.",
			Buckets: []float64{0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 30, 60, 120, 300, 900, 3600},
		}, []string{"profile"}),
		podStart: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nodekeep_verify_pod_start_seconds", Help: "Time from the creation of a worker Pod to the start of its worker.",
			Buckets: []float64{0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 7.5, 10, 20, 30, 60, 120},
		}, []string{"profile"}),
		garbage:   counter("nodekeep_verify_bad_reports_total", "Reports of workers that could not be used; each counts as inconclusive."),
		conflicts: counter("nodekeep_verify_conflicts_total", "Optimistic writes that another client was faster than, and that were planned again."),
		failures:  counter("nodekeep_verify_failures_total", "Times that a Node could not be worked on and was put off."),
		panics:    counter("nodekeep_verify_panics_total", "Panics in the work on one Node. The process and the work on all others go on."),
	}
	for _, kind := range verify.RemovalKinds() {
		for _, outcome := range []string{outcomeRemoved, outcomeHeld, outcomeFailed} {
			m.removals.WithLabelValues(string(kind), outcome)
		}
	}
	registry.MustRegister(m.attempts, m.results, m.ended, m.removals, m.verified, m.podStart, m.garbage, m.conflicts, m.failures, m.panics)
	return m
}

// What came of a decision to remove a Node.
const (
	outcomeRemoved = "removed" // the Node, or what stands for it, was removed
	outcomeHeld    = "held"    // a brake held it; it is decided again after the next attempt that fails
	outcomeFailed  = "failed"  // the API server refused the removal
)

// profiles gives the series of all profiles a first value.
func (m *Metrics) profiles(profiles verify.Profiles) {
	for _, profile := range profiles.All() {
		for _, verdict := range []verify.Verdict{verify.VerdictPassed, verify.VerdictFailed, verify.VerdictShared, verify.VerdictInconclusive} {
			m.attempts.WithLabelValues(profile.Name, string(verdict))
		}
		for _, how := range []verify.Verdict{verify.VerdictReleased, verify.VerdictRemoved} {
			m.ended.WithLabelValues(profile.Name, string(how))
		}
		for _, check := range profile.Checks {
			for _, outcome := range []verify.Outcome{verify.Passed, verify.Failed, verify.Skipped} {
				m.results.WithLabelValues(profile.Name, check.Name, string(outcome))
			}
		}
		m.verified.WithLabelValues(profile.Name)
		m.podStart.WithLabelValues(profile.Name)
	}
}

// watch adds the series that are read off a controller at each scrape.
func (m *Metrics) watch(c *Controller) {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	m.registry.MustRegister(
		&standingCollector{c},
		gauge("nodekeep_verify_in_flight", "Worker Pods that exist, and control Pods that run.", func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(c.starts.InFlight())
		}),
		gauge("nodekeep_verify_queue_length", "Nodes that wait to be worked on.", func() float64 { return float64(c.queue.Len()) }),
		gauge("nodekeep_verify_outage", "1 while so many Nodes are not Ready at once that none is verified again after a reboot.", func() float64 {
			if c.outage.until(c.Now()).After(c.Now()) {
				return 1
			}
			return 0
		}),
		gauge("nodekeep_verify_leading", "1 while this process leads.", func() float64 {
			if c.Leading() {
				return 1
			}
			return 0
		}),
	)
}

// standing is where all Nodes stand: those with the taint one by one, the others counted by profile.
type standing struct {
	mu   sync.Mutex
	held map[string]stands // by the Node's name
	open map[string]int    // by profile
	// controls are how many Nodes a control Pod can run on, by profile.
	controls map[string]int
	takers   int // Nodes on which ordinary Pods can run
}

type stands struct {
	profile string
	state   verify.State
	due     time.Time
	brake   verify.BrakeReason // that holds the removal of the Node; empty: none does
}

// changed counts an event of a Node.
func (s *standing) changed(before, after *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, by := range counted(before, after) {
		if !n.held {
			s.open[n.profile] += by
		}
		if n.controls {
			s.controls[n.profile] += by
		}
		if n.takes {
			s.takers += by
		}
	}
	zero := func(_ string, count int) bool { return count == 0 } // of a profile that is deleted
	maps.DeleteFunc(s.open, zero)
	maps.DeleteFunc(s.controls, zero)
	switch {
	case after == nil:
		delete(s.held, before.name)
	case !after.held:
		delete(s.held, after.name)
	case s.held[after.name] == stands{}:
		s.held[after.name] = stands{profile: after.profile, state: verify.StateWaiting}
	}
}

// isCold reports whether ordinary Pods can run on no Node.
func (s *standing) isCold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takers == 0
}

// set notes what is planned for a Node with the taint.
func (s *standing) set(name string, n *node, action verify.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.held[name]; ok && n != nil && action.State != verify.StateOpen && action.State != "" {
		one := stands{profile: action.Profile.Name, state: action.State, due: action.Due}
		if held := action.Progress.RemovalHeld; held != nil {
			one.brake = held.Reason
		}
		s.held[name] = one
	}
}

func (s *standing) isHeld(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.held[name]
	return ok
}

// hasControl reports whether a control Pod of a profile can run somewhere.
func (s *standing) hasControl(profile string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.controls[profile] > 0
}

// holds reports whether a Node of a profile waits.
func (s *standing) holds(profile string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.held {
		if one.profile == profile {
			return true
		}
	}
	return false
}

// standingCollector counts Nodes at each scrape.
type standingCollector struct{ *Controller }

func nodesSeries() *prometheus.Desc {
	return prometheus.NewDesc("nodekeep_verify_nodes", "Nodes that a profile selects, by profile and state.", []string{"profile", "state"}, nil)
}

func overdueSeries() *prometheus.Desc {
	return prometheus.NewDesc("nodekeep_verify_overdue_nodes", "Nodes with the taint that are past the deadline of their profile.", []string{"profile"}, nil)
}

func sharedSeries() *prometheus.Desc {
	return prometheus.NewDesc("nodekeep_verify_shared_failure", "1 while Nodes of a profile fail a check that verified Nodes fail, too. Their attempts are not counted.", []string{"profile"}, nil)
}

func brakeSeries() *prometheus.Desc {
	return prometheus.NewDesc("nodekeep_verify_brake_open", "1 while a brake holds the removal of a Node, by reason.", []string{"reason"}, nil)
}

// Describe names the series.
func (c *standingCollector) Describe(to chan<- *prometheus.Desc) {
	to <- nodesSeries()
	to <- overdueSeries()
	to <- sharedSeries()
	to <- brakeSeries()
}

// Collect counts.
func (c *standingCollector) Collect(to chan<- prometheus.Metric) {
	type series struct {
		profile string
		state   verify.State
	}
	now, nodes, overdue, brakes := c.Now(), map[series]int{}, map[string]int{}, map[verify.BrakeReason]float64{}
	c.standing.mu.Lock()
	for _, profile := range c.Profiles().All() {
		for _, state := range verify.States() {
			nodes[series{profile.Name, state}] = 0
		}
		overdue[profile.Name] = 0
		nodes[series{profile.Name, verify.StateOpen}] = c.standing.open[profile.Name]
	}
	for _, one := range c.standing.held {
		if _, ok := overdue[one.profile]; !ok {
			continue
		}
		nodes[series{one.profile, one.state}]++
		brakes[one.brake] = 1
		if !one.due.IsZero() && now.After(one.due) {
			overdue[one.profile]++
		}
	}
	c.standing.mu.Unlock()
	for _, reason := range verify.BrakeReasons() {
		to <- prometheus.MustNewConstMetric(brakeSeries(), prometheus.GaugeValue, brakes[reason], string(reason))
	}
	for one, count := range nodes {
		to <- prometheus.MustNewConstMetric(nodesSeries(), prometheus.GaugeValue, float64(count), one.profile, string(one.state))
	}
	for profile, count := range overdue {
		to <- prometheus.MustNewConstMetric(overdueSeries(), prometheus.GaugeValue, float64(count), profile)
		shared := 0.
		if c.isShared(profile) {
			shared = 1
		}
		to <- prometheus.MustNewConstMetric(sharedSeries(), prometheus.GaugeValue, shared, profile)
	}
}
