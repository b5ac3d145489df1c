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

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say what: %s, %s, %s or %s", isolateName, runtimeName, devicesName, dnsName)
	}
	program, args := args[0], args[1:]
	switch program {
	case isolateName:
		return isolate(args)
	case runtimeName:
		return serveRuntime(args)
	case devicesName:
		return serveDevices(args)
	case dnsName:
		return serveDNS(args)
	case firstName:
		return first(args)
	case pauseName:
		return pause(args)
	case containerName:
		return become(args)
	}
	return fmt.Errorf("%s: there is no such program; say %s, %s, %s or %s", program, isolateName, runtimeName, devicesName, dnsName)
}
