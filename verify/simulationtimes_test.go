package verify_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nodekeep.dev/nodekeep/verify"
)

func TestABrokenNodeAmongHealthyOnesIsRemovedWhateverTheTimesOfTheProfile(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 23))
		add := func(from time.Duration) string {
			times := slices.DeleteFunc([]time.Duration{
				time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
			}, func(d time.Duration) bool { return d < from })
			return times[min(rng.IntN(len(times)), rng.IntN(len(times)))].String() // short ones more often
		}
		all := intstr.FromString("100%")
		backoff := add(time.Second)
		minimum, err := time.ParseDuration(backoff)
		require.NoError(t, err)
		profile := verify.Profile{
			Name: "all", Checks: []verify.Check{{Name: "dns", DNS: &verify.DNS{Names: []string{"kubernetes.default.svc"}}}}, OnFailure: verify.RemoveNode,
			Timeout: add(time.Second), StartTimeout: add(10 * time.Second), Attempts: verify.Attempts{Max: new(1 + rng.IntN(5)), Backoff: backoff, MaxBackoff: add(minimum)},
		}
		profiles, errs := verify.Compile(verify.Settings{Limits: verify.Limits{StopAbove: &all, DeletionsPerHour: new(50)}, Profiles: []verify.Profile{profile}}, nil)
		require.Empty(t, errs)
		profiles.Limits.Percent, profiles.Limits.Spread = 100, time.Minute

		m := emptyModel(rng)
		m.leaders, m.profiles, m.inFlight = 1, [2]verify.Profiles{profiles, profiles}, profiles.Start.InFlight
		c := &modelController{model: m}
		m.controllers = []*modelController{c}
		healthy, broken := 1+rng.IntN(4), 1+rng.IntN(2)
		for i := range healthy + broken {
			name := fmt.Sprint("n", i)
			m.register(name)
			node := m.nodes[name]
			node.Taints, node.Ready, node.hostile, node.broken = node.Taints[:1], true, false, i >= healthy
			node.Taints[0].Value = ""
			m.wrote(name)
		}
		c.restart()
		attempts := 0
		m.goOnUntil(t, c, fmt.Sprintf("seed %d: %+v", seed, profile), func() bool {
			for _, node := range m.nodes {
				attempts = max(attempts, verify.ParseProgress(node.Annotation).Attempts)
			}
			return len(m.nodes) == healthy
		})
		require.Empty(t, m.wrong)
		if broken == 1 { // else the pause after the removal of the first one holds the other
			require.LessOrEqual(t, attempts, *profile.Attempts.Max+2, "seed %d: %+v", seed, profile)
		}
	}
}

// goOnUntil lets a single process and all kubelets go on until done. It looks at a Node when something changed, or when the plan said so.
func (m *model) goOnUntil(t *testing.T, c *modelController, subject string, done func() bool) {
	t.Helper()
	const run = 2 * time.Second // of a worker until it starts, and until it ends
	began, due := m.now, map[string]time.Time{}
	for _, name := range m.nodesByName() {
		due[name] = m.now
	}
	for !done() {
		require.Less(t, m.now.Sub(began), 24*time.Hour, subject)
		for read := c.read; read < len(m.log); read++ {
			due[m.log[read].nodeName] = m.now
			if m.log[read].pods { // as control Pods do
				for _, pod := range m.pods {
					due[pod.node] = m.now
				}
			}
		}
		c.observe(true)
		next := m.now.Add(time.Hour)
		for _, name := range slices.Sorted(maps.Keys(due)) {
			if !due[name].After(m.now) {
				if due[name] = c.work(name).Requeue; due[name].IsZero() {
					delete(due, name)
					continue
				}
			}
			if due[name].Before(next) {
				next = due[name]
			}
		}
		c.grant()
		for _, name := range m.podNames() {
			pod := m.pods[name]
			instant := pod.Created.Add(run * time.Duration(pod.age+1) / 2)
			if !pod.Ended() && !instant.After(m.now) {
				m.goOn(name)
			}
			if !pod.Ended() && instant.Before(next) {
				next = instant
			}
		}
		if c.read < len(m.log) || !next.After(m.now) {
			next = m.now.Add(100 * time.Millisecond)
		}
		m.now = next
	}
}
