package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ExecSync runs a command in a container that runs, as its user, and returns when it has ended. This is how the kubelet probes by commands.
func (r *containerRuntime) ExecSync(ctx context.Context, request *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	namespaces, err := c.namespaces()
	defer func() {
		for _, file := range namespaces {
			_ = file.Close()
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", request.GetCmd(), err)
	}
	var stdout, stderr bytes.Buffer
	command := &exec.Cmd{Path: request.GetCmd()[0], Args: request.GetCmd(), Env: c.spec.Env, Dir: c.spec.Cwd, Stdout: &stdout, Stderr: &stderr}
	user := &syscall.Credential{Uid: uint32(c.spec.UID), Gid: uint32(c.spec.GID)}
	for _, group := range c.spec.Groups {
		user.Groups = append(user.Groups, uint32(group))
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	process, err := start(command, 0, namespaces...)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", request.GetCmd(), err)
	}
	if seconds := request.GetTimeout(); seconds > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
		ctx = limited
	}
	select {
	case <-process.ended:
		return &cri.ExecSyncResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: int32(process.code)}, nil
	case <-ctx.Done():
		process.stop(syscall.SIGKILL, 0)
		return nil, status.Errorf(codes.DeadlineExceeded, "run %s: it has not ended in time", request.GetCmd())
	}
}

// namespaces returns those of a container's program, and of its pod.
func (c *container) namespaces() (files []*os.File, err error) {
	c.mu.Lock()
	process, finished := c.process, c.finished != 0
	c.mu.Unlock()
	if process == nil || finished {
		return nil, errors.New("the container does not run")
	}
	if files, err = c.sandbox.join(); err != nil {
		return files, err
	}
	mounts, err := process.namespace("mnt") // the last one: there is no other file of the machine in it
	if err != nil {
		return files, err
	}
	return append(files, mounts), nil
}
