package main

import (
	"fmt"
	"os"
)

// The programs of this binary. The last three are started by the others only.
const (
	isolateName   = "isolate"
	runtimeName   = "runtime"
	devicesName   = "devices"
	dnsName       = "dns"
	firstName     = "first"     // process 1 of what isolate makes
	pauseName     = "pause"     // holds the namespaces of a pod
	containerName = "container" // becomes the program of a container
)

var programs = map[string]func(args []string) error{
	isolateName:   isolate,
	runtimeName:   serveRuntime,
	devicesName:   serveDevices,
	dnsName:       serveDNS,
	firstName:     first,
	pauseName:     pause,
	containerName: become,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || programs[args[0]] == nil {
		return fmt.Errorf("say what: %s, %s, %s or %s", isolateName, runtimeName, devicesName, dnsName)
	}
	return programs[args[0]](args[1:])
}
