package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after SIGTERM before it is killed. A busy machine is slow.
const stopGrace = 90 * time.Second

// Command is what StartProcess runs.
type Command struct {
	// Name stands for the process in errors and in the pid file; it has no spaces.
	Name string
	Path string
	Args []string
	// Env is added to the environment of this process, as "KEY=value".
	Env []string
	// Log is the file to which standard output and error are appended. Its folder is created when missing.
	Log string
	// Detach starts the process in a session of its own, so that it outlives this one.
	Detach bool
}

// Process is a running or ended program. Its methods may be called from several goroutines.
type Process struct {
	command Command
	cmd     *exec.Cmd
	grace   time.Duration
	exited  chan struct{}
	err     error
}

// StartProcess starts a program in a process group of its own. So Ctrl-C in a terminal reaches only the owner, who then stops the programs in the
// right order. On Linux the kernel kills the program whenever its owner dies, unless the command is detached.
func StartProcess(command Command) (*Process, error) {
	p := &Process{command: command, grace: stopGrace, exited: make(chan struct{})}
	if err := os.MkdirAll(filepath.Dir(command.Log), 0o700); err != nil {
		return nil, fmt.Errorf("make log folder of %s: %w", command.Name, err)
	}
	log, err := os.OpenFile(command.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", command.Name, err)
	}
	defer log.Close() // the program holds its own handle

	p.cmd = exec.Command(command.Path, command.Args...)
	p.cmd.Env = append(os.Environ(), command.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = attributes(command.Detach)

	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Name, err)
	}
	return p, nil
}

// run starts the program and waits for its end on one thread of the operating system. The kernel takes the death of the thread that started a program
// for the death of the parent. A thread that the Go runtime retires would kill it.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// Name returns the name that the command gave.
func (p *Process) Name() string { return p.command.Name }

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// LogPath returns the file that holds what the program printed.
func (p *Process) LogPath() string { return p.command.Log }

// Exited is closed once the program has ended and its process id is free.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits for the end of the program. It returns nil for exit code 0, else an *exec.ExitError.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// Stop sends SIGTERM and waits for the end. A program that takes longer than stopGrace is killed, and Stop returns an
// error that says so. The exit code is Wait's to tell. Stopping an ended program does nothing.
func (p *Process) Stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	// A paused program gets SIGTERM only when it continues.
	if err := p.Resume(); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(p.grace):
	}
	return errors.Join(fmt.Errorf("stop %s: killed, it did not end within %s", p.Name(), p.grace), p.Kill())
}

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Pause stops the program where it is with SIGSTOP: it keeps its connections and answers nothing.
func (p *Process) Pause() error { return p.signal(pauseSignal) }

// Resume lets a paused program go on with SIGCONT.
func (p *Process) Resume() error { return p.signal(resumeSignal) }

// signal goes through the handle of os.Process, which knows an ended program from another one with the same id.
func (p *Process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, p.Name(), err)
	}
	return nil
}

// running reports whether the program has not ended yet.
func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}
