package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/harness"
)

// build is a program that -binary names, or this tree where there is no Binary.
type build struct {
	name string
	harness.Product
}

// addBuild reads NAME=PATH[,MANIFESTS].
func (s *settings) addBuild(value string) error {
	name, paths, found := strings.Cut(value, "=")
	binary, manifests, own := strings.Cut(paths, ",")
	if !found || name == "" || binary == "" {
		return errors.New("it is not of the form NAME=PATH or NAME=PATH,MANIFESTS")
	}
	if !own {
		manifests = harness.Manifests()
	}
	for _, path := range []string{binary, manifests} {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(s.builds, func(b build) bool { return b.name == name }) {
		return fmt.Errorf("two builds are named %q", name)
	}
	s.builds = append(s.builds, build{name, harness.Product{Binary: binary, Manifests: manifests}})
	return nil
}

// side is a build on a control plane of its own. Builds may differ in their manifests and in how they store records.
type side struct {
	*bed.Bed
	name             string
	counter          *bed.Counter // where writes are counted
	webhook, capture *bed.Program
}

// comparedPolicy is the policy of every build: the defaults, and one rule.
const comparedPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: Policy
taints:
  rules:
  - selector: ` + ruleLabel + `
    taint: ` + ruleLabel + `={value}:NoSchedule
`

// ruleLabel is the label of the rule.
const ruleLabel = "example.com/dedicated"

// startSides starts a control plane for each build.
func (b *bench) startSides(ctx context.Context) (sides []*side, err error) {
	for _, build := range b.builds {
		b.phase("start the control plane of %s", build.name)
		start := bed.New
		if build.Binary != "" {
			start = func(ctx context.Context) (*bed.Bed, error) { return bed.NewOf(ctx, build.Product) }
		}
		on, err := start(ctx)
		if err != nil {
			return sides, fmt.Errorf("%s: %w", build.name, err)
		}
		sides = append(sides, &side{Bed: on, name: build.name})
		if err := on.SetPolicy(comparedPolicy); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// inTurns calls do for each side, beginning with another one each turn.
func inTurns(sides []*side, turn int, do func(*side) error) error {
	for n := range sides {
		s := sides[(n+turn)%len(sides)]
		if err := do(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// up starts the webhook and has the API server call it, with the policies that are shipped.
func (s *side) up(ctx context.Context) (err error) {
	if s.webhook, err = s.StartWebhook(ctx); err != nil {
		return err
	}
	return s.Install(ctx)
}

// down stops the processes that run.
func (s *side) down() (err error) {
	for _, process := range []**bed.Program{&s.capture, &s.webhook} {
		if *process != nil {
			err = errors.Join(err, (*process).Stop())
			*process = nil
		}
	}
	return err
}
