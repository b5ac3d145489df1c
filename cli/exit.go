package cli

import (
	"context"
	"errors"
)

// The exit codes of the operator's commands.
const (
	exitDone        = 0
	exitFindings    = 1   // done, and not all is well: findings, differences, or only a part could be done
	exitUsage       = 2   // wrong command, flags, arguments or files: nothing was started
	exitNotDone     = 3   // it could not be done: no cluster, a missing right, no such Node, or the answer was no
	exitInterrupted = 130 // Ctrl-C
)

// ExitCodes explains what the exit codes mean, in Markdown.
const ExitCodes = `| Code | Meaning |
|---|---|
| 0 | done |
| 1 | done, and not all is well: findings, differences, or only a part could be done, and stderr says which. Of the processes (webhook, capture, verify): ended by an error |
| 2 | wrong command, flags, arguments or files: nothing was started |
| 3 | it could not be done, and nothing was changed. There is no cluster, no such Node or no right, or the answer was no |
| 130 | interrupted by Ctrl-C; stderr says what was changed before, if anything was |
`

// exitError is an error that shows how the program exits. Without a message of its own nothing is printed for it: stdout has
// said what there is to say.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// asFindings ends a command that did what was asked for and found that not all is well.
func asFindings(err error) error { return withCode(exitFindings, err) }

// asUsage ends a command before it has done anything.
func asUsage(err error) error { return withCode(exitUsage, err) }

// withCode keeps the code of an error that has one.
func withCode(code int, err error) error {
	if err == nil || errors.As(err, &exitError{}) {
		return err
	}
	return exitError{code, err}
}

// ExitCode returns the exit code of the program after an error of one of the commands, nil included. For an error that this package did not make, such as
// one of the flag library, ours is false.
func ExitCode(err error) (code int, ours bool) {
	if err == nil {
		return exitDone, true
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code, true
	}
	return 0, false
}

// asExitError gives the error of a command's run its code.
func asExitError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.As(err, &exitError{}) {
		return exitError{exitInterrupted, errors.New("interrupted before it was finished")}
	}
	return withCode(exitNotDone, err)
}
