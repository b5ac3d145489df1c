package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"nodekeep.dev/nodekeep/verify"
)

// Metrics are the series of verification. They are by profile; none carries a Node's name.
type Metrics struct {
	registry prometheus.Registerer
	verdicts *prometheus.CounterVec
	results  *prometheus.CounterVec
	removals *prometheus.CounterVec
	verified *prometheus.HistogramVec
	podStart *prometheus.HistogramVec
	took     *prometheus.HistogramVec
	errors   *prometheus.CounterVec
}

// What keeps work on a Node from its end.
const (
	nodeConflict = "node_conflict" // a write met another writer
	failure      = "failure"       // the work was put off
	panicked     = "panic"         // a panic was contained
)

// verdictBadReport is in the series that of an inconclusive attempt whose report cannot be used.
const verdictBadReport verify.Verdict = "bad_report"

// NewMetrics registers the series; those by profile get a first value of 0 with the policy.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	register := promauto.With(registry)
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels []string, buckets ...float64) *prometheus.HistogramVec {
		return register.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	seconds := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		return histogram(name, help, []string{"profile"}, buckets...)
	}
	m := &Metrics{
		registry: registry,
		verdicts: counters("nodekeep_verify_verdicts_total", "Attempts to verify a Node, and ends of verification without a passed attempt (released, removed), by profile and by what came of them.", "profile", "verdict"),
		results:  counters("nodekeep_verify_results_total", "Results of checks, by profile, check and outcome.", "profile", "check", "outcome"),
		removals: counters("nodekeep_verify_removals_total", "Decisions to remove a Node that failed its checks, by onFailure and by what came of them.", "kind", "outcome"),
		verified: seconds("nodekeep_verify_ready_to_verified_seconds", "Time from the moment that a Node became Ready to the removal of its taint.",
			0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 30, 60, 120, 300, 900, 3600),
		podStart: seconds("nodekeep_verify_pod_start_seconds", "Time from the creation of a worker Pod to the start of its worker.",
			0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 7.5, 10, 20, 30, 60, 120),
		took: histogram("nodekeep_verify_check_seconds", "Time of a check with all its tries, as the Node reports it, up to the timeout. Checks of kind kubelet are left out.",
			[]string{"profile", "check", "outcome"}, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
		errors: register.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_controller_errors_total", Help: "Failures of work on one Node or record, by controller and kind. The work is tried again, and work on all others goes on.",
			ConstLabels: prometheus.Labels{"controller": "verify"},
		}, []string{"kind"}),
	}
	for _, kind := range []string{nodeConflict, failure, panicked} {
		m.errors.WithLabelValues(kind)
	}
	for _, kind := range verify.RemovalKinds() {
		for _, outcome := range []string{outcomeRemoved, outcomeHeld, outcomeFailed} {
			m.removals.WithLabelValues(string(kind), outcome)
		}
	}
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
		for _, verdict := range []verify.Verdict{
			verify.VerdictPassed, verify.VerdictFailed, verify.VerdictShared, verify.VerdictInconclusive, verdictBadReport, verify.VerdictReleased, verify.VerdictRemoved,
		} {
			m.verdicts.WithLabelValues(profile.Name, string(verdict))
		}
		for _, check := range profile.Checks {
			for _, outcome := range []verify.Outcome{verify.Passed, verify.Failed, verify.Skipped} {
				m.results.WithLabelValues(profile.Name, check.Name, string(outcome))
				if outcome != verify.Skipped && check.Kubelet == nil {
					m.took.WithLabelValues(profile.Name, check.Name, string(outcome))
				}
			}
		}
		m.verified.WithLabelValues(profile.Name)
		m.podStart.WithLabelValues(profile.Name)
	}
}

// watch adds the series that are read off a controller at each scrape.
func (m *Metrics) watch(c *Controller) {
	gauge := func(name, help string, read func() int) {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	gauge("nodekeep_verify_in_flight", "Worker Pods that exist, and control Pods that run.", func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.starts.InFlight()
	})
	gauge("nodekeep_verify_outage", "1 while so many Nodes are not Ready at once that none is verified again after a reboot.", func() int {
		return oneIf(c.standing.outageUntil(c.Now()).After(c.Now()))
	})
	controller := func(name, help string, read func() int) {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"controller": "verify"}},
			func() float64 { return float64(read()) })
	}
	controller("nodekeep_controller_queue_length", "Nodes that wait to be worked on, by controller.", c.queue.Len)
	controller("nodekeep_controller_leading", "1 while this process leads, by controller.", func() int { return oneIf(c.Leading()) })
	m.registry.MustRegister(newStandingCollector(c))
}

// oneIf returns a yes or no as a metric.
func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// standing is where all Nodes stand: those with the taint one by one, the others counted by profile.
type standing struct {
	mu     sync.Mutex
	closed map[string]stands // by the Node's name
	open   map[string]int    // by profile
	// controls are how many Nodes a control Pod can run on, by profile.
	controls  map[string]int
	failing   map[string]int     // of those in open, on which the last attempt did not pass, by profile
	takers    int                // Nodes on which ordinary Pods can run
	rechecked map[string]int     // Nodes that are closed to check them again, by profile
	closing   map[string]closing // those of which the watch does not show it yet, by uid
	waiting   map[string]bool    // names of Nodes that wait until they may be closed
	outage    verify.Outage
}

type stands struct {
	profile string
	state   verify.State
	cause   verify.Cause
	due     time.Time
	brake   verify.BrakeReason // that holds the removal of the Node; empty: none does
}

// begin knows of no Node.
func (s *standing) begin() {
	s.closed, s.open, s.controls = map[string]stands{}, map[string]int{}, map[string]int{}
	s.failing = map[string]int{}
	s.rechecked, s.closing, s.waiting = map[string]int{}, map[string]closing{}, map[string]bool{}
}

// changed counts an event of a Node; began is true when an outage begins with it.
func (s *standing) changed(prev, current *node, now time.Time) (began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts, absent := 0, 0
	for by, n := range map[int]*node{-1: prev, 1: current} {
		if n == nil {
			continue
		}
		s.open[n.profile] += by * oneIf(!n.closed)
		s.controls[n.profile] += by * oneIf(n.controls)
		s.failing[n.profile] += by * oneIf(n.look.Fails)
		s.takers += by * oneIf(n.takes)
		s.rechecked[n.profile] += by * oneIf(n.rechecked)
		counts += by * oneIf(n.counts)
		absent += by * oneIf(n.absent)
	}
	zero := func(_ string, count int) bool { return count == 0 } // of a profile that is deleted
	maps.DeleteFunc(s.open, zero)
	maps.DeleteFunc(s.controls, zero)
	maps.DeleteFunc(s.failing, zero)
	maps.DeleteFunc(s.rechecked, zero)
	if prev != nil && (current == nil || current.closed || current.uid != prev.uid) {
		delete(s.closing, prev.uid)
	}
	switch {
	case current == nil:
		delete(s.closed, prev.name)
		delete(s.waiting, prev.name)
	case !current.closed:
		delete(s.closed, current.name)
	case s.closed[current.name] == stands{}:
		s.closed[current.name] = stands{profile: current.profile, state: verify.StateWaiting, cause: verify.CauseDue}
	}
	return s.outage.Change(counts, absent, now)
}

// outageUntil returns when the outage ends, if no more Nodes are away by then; see [verify.Outage.End].
func (s *standing) outageUntil(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage.End(now)
}

// isCold reports whether ordinary Pods can run on no Node.
func (s *standing) isCold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takers == 0
}

// set notes what is planned for a Node with the taint; refused: the API server refuses it.
func (s *standing) set(name string, n *node, action verify.Action, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.closed[name]; ok && n != nil && action.State != verify.StateOpen && action.State != "" {
		entry := stands{profile: action.Profile.Name, state: action.State, cause: action.Diagnosis.Cause, due: action.Due}
		if refused {
			entry.cause = verify.CauseRefused
		}
		if held := action.Progress.RemovalHeld; held != nil {
			entry.brake = held.Reason
		}
		s.closed[name] = entry
	}
}

// count notes why a Node with the taint waits, where nothing could be planned.
func (s *standing) count(name string, cause verify.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry, ok := s.closed[name]; ok {
		entry.cause = cause
		s.closed[name] = entry
	}
}

func (s *standing) isClosed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.closed[name]
	return ok
}

// able returns how many Nodes of a profile can run a control Pod.
func (s *standing) able(profile string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.controls[profile]
}

// holds reports whether a Node of a profile waits, or fails.
func (s *standing) holds(profile string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range s.closed {
		if entry.profile == profile {
			return true
		}
	}
	return s.failing[profile] > 0
}

// standingCollector counts Nodes at each scrape.
type standingCollector struct {
	*Controller
	nodes, causes, overdue, shared, brakes *prometheus.Desc
}

func newStandingCollector(c *Controller) *standingCollector {
	series := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &standingCollector{
		Controller: c,
		nodes:      series("nodekeep_verify_nodes", "Nodes that a profile selects, by profile and state. failing: open, and the last attempt did not pass (mode report).", "profile", "state"),
		causes:     series("nodekeep_verify_causes", "Nodes with the taint, by profile and by the cause that commands and the condition show.", "profile", "cause"),
		overdue:    series("nodekeep_verify_overdue_nodes", "Nodes with the taint that are past the deadline of their profile.", "profile"),
		shared:     series("nodekeep_verify_shared_failure", "1 while Nodes of a profile fail a check that verified Nodes fail, too. Their attempts are not counted.", "profile"),
		brakes:     series("nodekeep_verify_brake_open", "1 while a brake holds the removal of a Node, by reason.", "reason"),
	}
}

// Describe names the series.
func (c *standingCollector) Describe(to chan<- *prometheus.Desc) {
	for _, series := range []*prometheus.Desc{c.nodes, c.causes, c.overdue, c.shared, c.brakes} {
		to <- series
	}
}

// Collect counts.
func (c *standingCollector) Collect(to chan<- prometheus.Metric) {
	type series struct {
		profile string
		state   verify.State
	}
	type causeKey struct {
		profile string
		cause   verify.Cause
	}
	now, nodes, overdue, brakes, causes := c.Now(), map[series]int{}, map[string]int{}, map[verify.BrakeReason]int{}, map[causeKey]int{}
	c.standing.mu.Lock()
	for _, profile := range c.Profiles().All() {
		for _, state := range verify.States() {
			nodes[series{profile.Name, state}] = 0
		}
		overdue[profile.Name] = 0
		for _, row := range verify.Causes() {
			if slices.Contains(row.States, verify.StateStuck) || slices.Contains(row.States, verify.StateChecking) {
				causes[causeKey{profile.Name, row.Cause}] = 0
			}
		}
		failing := c.standing.failing[profile.Name]
		nodes[series{profile.Name, verify.StateOpen}], nodes[series{profile.Name, verify.StateFailing}] = c.standing.open[profile.Name]-failing, failing
	}
	for _, entry := range c.standing.closed {
		if _, ok := overdue[entry.profile]; !ok {
			continue
		}
		nodes[series{entry.profile, entry.state}]++
		causes[causeKey{entry.profile, entry.cause}]++
		brakes[entry.brake] = 1
		overdue[entry.profile] += oneIf(!entry.due.IsZero() && now.After(entry.due))
	}
	c.standing.mu.Unlock()
	send := func(series *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(series, prometheus.GaugeValue, float64(value), labels...)
	}
	for _, reason := range verify.BrakeReasons() {
		send(c.brakes, brakes[reason], string(reason))
	}
	for key, count := range causes {
		send(c.causes, count, key.profile, string(key.cause))
	}
	for labels, count := range nodes {
		send(c.nodes, count, labels.profile, string(labels.state))
	}
	for profile, count := range overdue {
		send(c.overdue, count, profile)
		send(c.shared, oneIf(c.isShared(profile)), profile)
	}
}
