package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/policy/policytest"
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
	binary, manifests, ok := strings.Cut(paths, ",")
	if !found || name == "" || binary == "" {
		return errors.New("it is not of the form NAME=PATH or NAME=PATH,MANIFESTS")
	}
	if !ok {
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
var comparedPolicy = policytest.Manifest(`taints:
  rules:
  - selector: ` + ruleLabel + `
    taint: ` + ruleLabel + `={value}:NoSchedule
`)

// ruleLabel is the label of the rule.
const ruleLabel = "example.com/dedicated"

// startSides starts a control plane for each build.
func (b *bench) startSides(ctx context.Context) (sides []*side) {
	for _, build := range b.builds {
		b.phase("start the control plane of %s", build.name)
		s := &side{Bed: bed.New(ctx, b.Run, build.Product), name: build.name}
		s.SetPolicy(ctx, comparedPolicy)
		sides = append(sides, s)
	}
	return sides
}

// inTurns calls do for each side, beginning with another one each turn. If a step fails, the error names the build.
func inTurns(sides []*side, turn int, fn func(*side)) {
	var pos *side
	defer func() {
		if pos != nil {
			pos.Errorf("the build was %s", pos.name)
		}
	}()
	for n := range sides {
		pos = sides[(n+turn)%len(sides)]
		fn(pos)
	}
	pos = nil
}

// start starts the webhook and has the API server call it, with the policies that are shipped.
func (s *side) start(ctx context.Context) {
	s.webhook = s.StartWebhook(ctx)
	s.Install(ctx)
}

// stop stops the processes that run.
func (s *side) stop() {
	for _, process := range []**bed.Program{&s.capture, &s.webhook} {
		if *process != nil {
			(*process).Stop()
			*process = nil
		}
	}
}
