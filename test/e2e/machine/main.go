package main

import (
	"fmt"
	"os"
	"strings"
)

// The programs of this binary. The last one is started by isolate only.
const (
	isolateName = "isolate"
	runtimeName = "runtime"
	imageName   = "image"
	loseName    = "lose"
	devicesName = "devices"
	dnsName     = "dns"
	firstName   = "first" // process 1 of what isolate makes
)

var programs = map[string]func(args []string) error{
	isolateName: isolate,
	runtimeName: runContainerd,
	imageName:   loadImage,
	loseName:    lose,
	devicesName: serveDevices,
	dnsName:     serveDNS,
	firstName:   first,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || programs[args[0]] == nil {
		return fmt.Errorf("say what: %s", strings.Join([]string{isolateName, runtimeName, imageName, loseName, devicesName, dnsName}, ", "))
	}
	return programs[args[0]](args[1:])
}
