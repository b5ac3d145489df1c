package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set at build time: -ldflags "-X main.version=v1.2.3 -X main.commit=0123abc". Where they are not, what the Go
// tool notes about the module and its repository stands in.
var version, commit string

// build is which nodekeep this is.
type build struct {
	version string
	commit  string // with -dirty where files were changed after it
	goTool  string
}

// thisBuild returns the build that runs.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(version, commit, info)
}

// buildOf prefers what was stamped to what the Go tool noted, which is nil in a binary without it.
func buildOf(stampedVersion, stampedCommit string, info *debug.BuildInfo) build {
	var noted string // of the module: a release where it was installed as one, a pseudo-version in a repository
	settings := map[string]string{}
	if info != nil {
		noted = info.Main.Version
		for _, setting := range info.Settings {
			settings[setting.Key] = setting.Value
		}
	}
	if noted == "(devel)" {
		noted = ""
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return build{
		version: cmp.Or(stampedVersion, noted, "development"),
		commit:  cmp.Or(stampedCommit, revision, "unknown"),
		goTool:  fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
	}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: installation,
		Short:   "Say which nodekeep this is: version, commit, and what it was built with",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			b := thisBuild()
			_, err := fmt.Fprintf(command.OutOrStdout(), "version: %s\ncommit:  %s\ngo:      %s\n", b.version, b.commit, b.goTool)
			return err
		},
	}
}
