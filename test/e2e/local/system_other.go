//go:build !linux

package local

import "syscall"

// dieWithParent is for Linux, and nothing here runs elsewhere.
func dieWithParent() *syscall.SysProcAttr { return nil }

func mayIsolate() bool { return false }

func unmount(string) error { return nil }
