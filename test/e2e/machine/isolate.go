package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolated are the namespaces of a machine of its own.
const isolated = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// isolate runs a program on a machine of its own and ends with its exit code.
func isolate(args []string) error {
	if _, _, err := readIsolate(args); err != nil {
		return err
	}
	current, err := newCgroup()
	if err != nil {
		return err
	}
	folder, err := os.Open(current.path)
	if err != nil {
		return errors.Join(err, current.remove())
	}
	machine := exec.Command("/proc/self/exe", append([]string{firstName}, args...)...)
	machine.SysProcAttr = &syscall.SysProcAttr{Cloneflags: isolated, UseCgroupFD: true, CgroupFD: int(folder.Fd())}
	code, err := passOn(machine)
	if err := errors.Join(err, folder.Close(), current.remove()); err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

// readIsolate reads the arguments of isolate, which are also those of first.
func readIsolate(args []string) (addresses []netip.Prefix, program []string, err error) {
	flags := flag.NewFlagSet(isolateName, flag.ContinueOnError)
	list := flags.String("addresses", "", "further ranges of addresses of the machine (10.96.0.0/16), with commas: those of Services that it answers for")
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	if flags.NArg() == 0 {
		return nil, nil, errors.New("isolate: say which program")
	}
	for text := range strings.SplitSeq(*list, ",") {
		if text == "" {
			continue
		}
		address, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, nil, fmt.Errorf("read --addresses: %w", err)
		}
		addresses = append(addresses, address)
	}
	return addresses, flags.Args(), nil
}

// first is process 1 of the new machine. It furnishes it, runs the program, collects orphans and ends with the program's exit code. The kernel then
// kills all remaining processes.
func first(args []string) error {
	addresses, program, err := readIsolate(args)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the program starts on it, in the cgroups of the machine
	if err := furnish(); err != nil {
		return err
	}
	if err := isolateCgroups(); err != nil {
		return err
	}
	if err := networkUp(addresses); err != nil {
		return err
	}
	code, err := passOn(exec.Command(program[0], program[1:]...))
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

// passOn runs a command, passes signals on to it, and returns its exit code.
func passOn(command *exec.Cmd) (code int, err error) {
	runtime.LockOSThread() // the kernel takes the death of the thread that started the command for the death of the parent
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	// In a process group of its own it gets the Ctrl-C of a terminal from us alone, and once.
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid, command.SysProcAttr.Pdeathsig = true, syscall.SIGKILL

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("run %s: %w", command.Args[0], err)
	}
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s)
		}
	}()
	return collect(command.Process.Pid)
}

// collect waits for the end of a child, and meanwhile for every orphan. It returns the child's exit code.
func collect(child int) (code int, err error) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for process %d: %w", child, err)
		case pid == child && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == child && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
