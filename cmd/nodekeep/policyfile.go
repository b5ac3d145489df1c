package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/reload"
)

// policyFile is the policy in force: the last good state of the file, or the default without a file.
type policyFile struct {
	path      string
	byDefault policy.Policy
	file      *reload.Files[policy.Policy]
	prepare   func(policy.Policy) error // before a policy comes into force
	changed   func()
	trouble   func(error)
	gauges    []prometheus.Collector
}

// readPolicy reads the file, or takes the default where path is empty.
func readPolicy(path string, gate policy.Gate) (*policyFile, error) {
	f := &policyFile{path: path, byDefault: policy.Default().WithGate(gate), prepare: func(policy.Policy) error { return nil }, changed: func() {}, trouble: func(error) {}}
	f.file = reload.New(func(contents [][]byte) (policy.Policy, error) {
		loaded, err := policy.Load(contents[0], gate)
		if before, ok := f.file.Value(); ok && err == nil {
			loaded = loaded.After(before)
		}
		if err == nil {
			err = f.prepare(loaded)
		}
		return loaded, err
	}, func(policy.Policy) { f.changed() }, func(err error) { f.trouble(err) }, path)
	f.gauges = []prometheus.Collector{
		gauge("nodekeep_policy_file_good", "1 while the policy in force is what the file says, 0 while the file cannot be used.",
			while(func() bool { return f.file.Err() == nil })),
		gauge("nodekeep_policy_verification_profiles", "Profiles of verification in the policy in force; 0 where no Node is verified.",
			func() float64 { return float64(len(f.Policy().Verify().All())) }),
	}
	if path == "" {
		return f, nil
	}
	if f.file.Read(); f.file.Err() != nil {
		return nil, fmt.Errorf("--policy %s: %w", path, f.file.Err())
	}
	return f, nil
}

// Policy is the policy in force.
func (f *policyFile) Policy() policy.Policy {
	if loaded, ok := f.file.Value(); ok {
		return loaded
	}
	return f.byDefault
}

// follow reloads the file when it changes, until ctx is done. It calls changed after each valid change, and wrong after each invalid one. A missing
// or invalid file is logged and changes nothing: the last good policy stays in force.
func (f *policyFile) follow(ctx context.Context, every time.Duration, logger *slog.Logger, changed func(), wrong func(error)) {
	if f.path == "" {
		return
	}
	f.changed = func() {
		logger.Info("policy reloaded", "file", f.path)
		changed()
	}
	f.trouble = func(err error) {
		if err == nil {
			logger.Info("policy file can be used again; it is the policy in force", "file", f.path)
			return
		}
		logger.Error("policy file cannot be used; the last good policy stays in force", "file", f.path, "error", err)
		wrong(err)
	}
	f.file.Run(ctx, every)
}
