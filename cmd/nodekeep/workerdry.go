package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	worker "nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// runDryChecks asks the checks of a profile on this machine.
func runDryChecks(ctx context.Context, o *workerOptions, out io.Writer) error {
	profile, err := profileOf(o)
	if err != nil {
		return usageError{[]error{err}}
	}
	if profile.OnlyWaits() {
		return usageError{[]error{fmt.Errorf("profile %s has no checks: its Nodes open when what it waits for holds", profile.Name)}}
	}
	pod := worker.ThisPod(os.Getenv)
	task, skipped := dryTask(profile, pod)
	report := pod.Run(ctx, task)
	report.Results = append(report.Results, skipped...)
	return reported(ctx, report, profile.Checks, o.report, out)
}

// profileOf returns the profile that the flags name.
func profileOf(o *workerOptions) (verify.CompiledProfile, error) {
	if o.policyFile == "" {
		return verify.CompiledProfile{}, errors.New("--profile needs --policy, the manifest of the NodePolicy that has the profile")
	}
	content, err := os.ReadFile(o.policyFile)
	if err != nil {
		return verify.CompiledProfile{}, fmt.Errorf("--policy %s: %w", o.policyFile, err)
	}
	read, err := policy.Load(content, policy.DefaultGate)
	if err != nil {
		return verify.CompiledProfile{}, fmt.Errorf("--policy %s: %w", o.policyFile, err)
	}
	var names []string
	for _, profile := range read.Verify().All() {
		if profile.Name == o.profile {
			return profile, nil
		}
		names = append(names, profile.Name)
	}
	switch {
	case len(names) == 0:
		return verify.CompiledProfile{}, fmt.Errorf("--policy %s: it has no profiles in section verify", o.policyFile)
	case o.profile == "" && len(names) == 1:
		return read.Verify().All()[0], nil
	case o.profile == "":
		return verify.CompiledProfile{}, fmt.Errorf("--profile is needed: the policy has the profiles %s", strings.Join(names, ", "))
	}
	return verify.CompiledProfile{}, fmt.Errorf("--profile %q: the policy has the profiles %s", o.profile, strings.Join(names, ", "))
}

// dryTask returns the part of a profile that needs no controller. It returns the results of all other checks too: they are skipped.
func dryTask(profile verify.CompiledProfile, pod worker.Pod) (verify.Task, []verify.Result) {
	task := verify.Task{Timeout: profile.Timeout.String()}
	var skipped []verify.Result
	for _, check := range profile.Checks {
		reason, message := dryReason(check, pod)
		if reason == "" {
			if check.DNS != nil {
				check.DNS = &verify.DNS{Names: check.DNS.Names} // the controller looks up the other servers
			}
			task.Checks = append(task.Checks, check)
			continue
		}
		skipped = append(skipped, verify.Result{Check: check.Name, Outcome: verify.Skipped, Required: check.IsRequired(), Reason: reason, Message: message})
	}
	return task, skipped
}

// dryReason returns why a dry run skips a check; empty for one that it asks.
func dryReason(check verify.Check, pod worker.Pod) (reason verify.Reason, message string) {
	switch needs := check.Needs(); {
	case check.Container != nil:
		return verify.ReasonContainer, "a container of the worker Pod: run the image " + check.Container.Image + " yourself"
	case !check.ByWorker():
		return verify.ReasonNotInPod, "only the controller asks the " + check.Kind()
	case needs.Service != nil:
		return verify.ReasonNotInPod, "only the controller looks up where Service " + needs.Service.Name + " is"
	case needs.Token && pod.APIServer == "":
		return verify.ReasonNotInPod, "KUBERNETES_SERVICE_HOST is not set: this is no Pod"
	}
	return "", ""
}
