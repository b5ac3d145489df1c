package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a program that this one started and waits for.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	code    int
}

// start starts a command on a thread of its own, which lives as long as the command. The kernel takes the death of the thread that started the
// command for the death of the parent. If files of namespaces are given, the thread joins these first.
func start(command *exec.Cmd, namespaces uintptr, join ...*os.File) (*process, error) {
	p := &process{command: command, ended: make(chan struct{})}
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Cloneflags, command.SysProcAttr.Setsid, command.SysProcAttr.Pdeathsig = namespaces, true, syscall.SIGKILL
	started := make(chan error)
	go func() {
		runtime.LockOSThread()                              // and never unlocked: a thread in other namespaces is of no use to anybody else
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // a thread that shares its root with others cannot join a namespace of mounts
			started <- fmt.Errorf("leave the root of other threads: %w", err)
			return
		}
		for _, namespace := range join {
			if err := unix.Setns(int(namespace.Fd()), 0); err != nil {
				started <- fmt.Errorf("join namespace: %w", err)
				return
			}
		}
		if err := command.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = command.Wait() // the state has it
		p.code = exitCode(command.ProcessState)
		close(p.ended)
	}()
	return p, <-started
}

// exitCode returns that of a shell: 128 and the signal for a program that a signal ended.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// stop sends a signal, waits for so long at most, and kills what is left.
func (p *process) stop(signal os.Signal, patience time.Duration) {
	_ = p.command.Process.Signal(signal)
	select {
	case <-p.ended:
		return
	case <-time.After(patience):
	}
	_ = p.command.Process.Kill()
	<-p.ended
}

// namespace opens a namespace of the process, by its name in /proc.
func (p *process) namespace(name string) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/%d/ns/%s", p.command.Process.Pid, name))
}

// podLog is the log of a container, in the format that kubelets read. A line has time, stream, F for full or P for part, and the text.
type podLog struct {
	path string

	mu   sync.Mutex
	file *os.File
}

func newPodLog(path string) (*podLog, error) {
	l := &podLog{path: path}
	return l, l.reopen()
}

// reopen opens the file again under its path, from which the kubelet has taken the old one away.
func (l *podLog) reopen() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return fmt.Errorf("make folder of log: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = file
	return nil
}

// stream is one of the streams of a log.
type stream struct {
	log  *podLog
	name string
}

func (l *podLog) stream(name string) stream { return stream{l, name} }

// Write logs each line, or the part of it that has come.
func (s stream) Write(data []byte) (int, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for line := range bytes.Lines(data) {
		text, full := bytes.CutSuffix(line, []byte("\n"))
		tag := "P"
		if full {
			tag = "F"
		}
		_, _ = fmt.Fprintf(s.log.file, "%s %s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), s.name, tag, text)
	}
	return len(data), nil
}

func (l *podLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}
