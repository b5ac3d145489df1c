//go:build !unix

package harness

import (
	"errors"
	"syscall"
)

// There are no such signals here: sending them fails.
const (
	pauseSignal  = syscall.Signal(-1)
	resumeSignal = syscall.Signal(-1)
)

func attributes(bool) *syscall.SysProcAttr { return nil }

func startTime(int) (string, error) { return "", errors.ErrUnsupported }
