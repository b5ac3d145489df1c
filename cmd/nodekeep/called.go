package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The names by which kubectl calls the program, which are links to it. One is the plugin, one completes the command line.
const (
	asPlugin     = "kubectl-nodekeep"
	asCompletion = "kubectl_complete-nodekeep"
)

// called returns the name that help texts show.
func called(path string) string {
	switch nameOf(path) {
	case asPlugin, asCompletion:
		return "kubectl nodekeep"
	default:
		return "nodekeep"
	}
}

// arguments returns those for the root command. For kubectl's completion they are cobra's own protocol, which is kubectl's too.
func arguments(osArgs []string) []string {
	if nameOf(osArgs[0]) == asCompletion {
		return slices.Concat([]string{cobra.ShellCompRequestCmd}, osArgs[1:])
	}
	return osArgs[1:]
}

// nameOf returns the name of a program without folder and, on Windows, suffix.
func nameOf(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }
