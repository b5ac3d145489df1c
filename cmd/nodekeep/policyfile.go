package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
)

// policyFile is the policy in force: the last good state of the file.
type policyFile struct {
	path    string
	gate    policy.Gate
	current atomic.Pointer[policy.Policy]
	content []byte // as last read, good or not
	good    prometheus.Gauge
}

// readPolicy reads the file, or takes the default where path is empty.
func readPolicy(path string, gate policy.Gate) (*policyFile, error) {
	f := &policyFile{path: path, gate: gate, good: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "nodekeep_policy_file_good", Help: "1 while the policy in force is what the file says, 0 while the file cannot be used.",
	})}
	f.good.Set(1)
	if path == "" {
		byDefault := policy.Default().WithGate(gate)
		f.current.Store(&byDefault)
		return f, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--policy: %w", err)
	}
	loaded, err := policy.Load(content, gate)
	if err != nil {
		return nil, fmt.Errorf("--policy %s: %w", path, err)
	}
	f.content = content
	f.current.Store(&loaded)
	return f, nil
}

// Policy is the policy in force.
func (f *policyFile) Policy() policy.Policy { return *f.current.Load() }

// follow looks at the file every so often and reloads it when it changed, until ctx is done, and calls changed after each good change, wrong after each
// other one. A file that is gone or wrong is logged and counts for nothing: the last good policy stays in force.
func (f *policyFile) follow(ctx context.Context, every time.Duration, logger *slog.Logger, changed func(), wrong func(error)) {
	if f.path == "" {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			var reloaded bool
			err := contain.Call(func() (err error) { reloaded, err = f.reload(); return err })
			switch {
			case err != nil:
				logger.Error("policy file cannot be used; the last good policy stays in force", "file", f.path, "error", err)
				wrong(err)
			case reloaded:
				logger.Info("policy reloaded", "file", f.path)
				changed()
			}
		}
	}
}

func (f *policyFile) reload() (changed bool, err error) {
	content, err := os.ReadFile(f.path)
	if err == nil && bytes.Equal(content, f.content) {
		return false, nil
	}
	if err != nil && f.content == nil {
		return false, nil // still gone
	}
	f.content = content
	var loaded policy.Policy
	if err == nil {
		loaded, err = policy.Load(content, f.gate)
	}
	if err != nil {
		f.good.Set(0)
		return false, err
	}
	f.good.Set(1)
	loaded = loaded.After(f.Policy())
	f.current.Store(&loaded)
	return true, nil
}
