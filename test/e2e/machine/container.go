package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one of a pod's programs, before, while or after it runs.
type container struct {
	id      string
	sandbox *sandbox
	config  *cri.ContainerConfig
	dir     string
	spec    *spec
	log     *podLog
	created int64

	mu       sync.Mutex
	process  *process // once started
	started  int64
	finished int64
}

// resolverPath is where programs find their DNS servers.
const resolverPath = "/etc/resolv.conf"

// CreateContainer prepares a container. What cannot be served is refused here, so that the pod's events tell.
func (r *containerRuntime) CreateContainer(_ context.Context, request *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	config := request.GetConfig()
	if name := config.GetImage().GetImage(); !r.image.is(name) {
		return nil, fmt.Errorf("create container: there is no image %s", name)
	}
	s, err := r.sandbox(request.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	described, err := newSpec(config, r.image.config.Config)
	if err != nil {
		return nil, fmt.Errorf("create container %s: %w", config.GetMetadata().GetName(), err)
	}
	c := &container{id: newID(), sandbox: s, config: config, spec: described, created: time.Now().UnixNano()}
	if !slices.ContainsFunc(described.Mounts, func(m mount) bool { return m.At == resolverPath }) {
		described.Mounts = append(described.Mounts, mount{From: r.resolverFile(s), At: resolverPath})
	}
	c.dir = filepath.Join(r.state, "containers", c.id)
	described.Lower, described.Dir = r.image.root, filepath.Join(c.dir, "files")
	if err := os.MkdirAll(described.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create container: %w", err)
	}
	encoded, err := json.Marshal(described)
	if err != nil {
		return nil, fmt.Errorf("create container: %w", err)
	}
	if err := os.WriteFile(c.specFile(), encoded, 0o600); err != nil {
		return nil, fmt.Errorf("create container: %w", err)
	}
	if c.log, err = newPodLog(filepath.Join(s.config.GetLogDirectory(), config.GetLogPath())); err != nil {
		return nil, fmt.Errorf("create container: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[c.id] = c
	return &cri.CreateContainerResponse{ContainerId: c.id}, nil
}

func (c *container) specFile() string { return filepath.Join(c.dir, "spec.json") }

// StartContainer runs a container's program and returns when it runs, or with the reason why it does not.
func (r *containerRuntime) StartContainer(_ context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := c.run(); err != nil {
		return nil, fmt.Errorf("start container %s: %w", c.config.GetMetadata().GetName(), err)
	}
	return &cri.StartContainerResponse{}, nil
}

func (c *container) run() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		return errors.New("it was started before")
	}
	namespaces, err := c.sandbox.join()
	defer func() {
		for _, file := range namespaces {
			_ = file.Close()
		}
	}()
	if err != nil {
		return err
	}
	reports, report, err := os.Pipe() // why the program could not be run
	if err != nil {
		return err
	}
	defer reports.Close()
	command := self(containerName, c.specFile())
	command.Env = []string{}
	command.Stdout, command.Stderr, command.ExtraFiles = c.log.stream("stdout"), c.log.stream("stderr"), []*os.File{report}
	own := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID)
	if c.sandbox.onHost() {
		own |= unix.CLONE_NEWIPC
	}
	process, err := start(command, own, namespaces...)
	_ = report.Close()
	if err != nil {
		return err
	}
	c.process, c.started = process, time.Now().UnixNano()
	go c.follow()
	reason, err := io.ReadAll(reports)
	if err == nil && len(reason) > 0 {
		err = errors.New(string(reason))
	}
	return err
}

// follow notes when the program has ended and its log is complete.
func (c *container) follow() {
	<-c.process.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = time.Now().UnixNano()
}

// stop ends the program: SIGTERM, so much time, SIGKILL.
func (c *container) stop(patience time.Duration) {
	c.mu.Lock()
	process := c.process
	c.mu.Unlock()
	if process != nil {
		process.stop(syscall.SIGTERM, patience)
	}
}

// StopContainer ends a container's program within a time. It may be called again.
func (r *containerRuntime) StopContainer(_ context.Context, request *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	if c, err := r.container(request.GetContainerId()); err == nil {
		c.stop(time.Duration(request.GetTimeout()) * time.Second)
	}
	return &cri.StopContainerResponse{}, nil
}

// RemoveContainer forgets a container, running or not, and leaves its log. It may be called again.
func (r *containerRuntime) RemoveContainer(_ context.Context, request *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return &cri.RemoveContainerResponse{}, nil // removed before
	}
	c.stop(0)
	c.log.close()
	if err := os.RemoveAll(c.dir); err != nil {
		return nil, fmt.Errorf("remove container: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, c.id)
	return &cri.RemoveContainerResponse{}, nil
}

// ReopenContainerLog opens the log anew, after the kubelet has renamed it.
func (r *containerRuntime) ReopenContainerLog(_ context.Context, request *cri.ReopenContainerLogRequest) (*cri.ReopenContainerLogResponse, error) {
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &cri.ReopenContainerLogResponse{}, c.log.reopen()
}

// UpdateContainerResources has nothing to do: there are no limits here.
func (r *containerRuntime) UpdateContainerResources(context.Context, *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	return &cri.UpdateContainerResourcesResponse{}, nil
}

// ListContainers lists the containers that a filter selects.
func (r *containerRuntime) ListContainers(_ context.Context, request *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	filter := request.GetFilter()
	response := &cri.ListContainersResponse{}
	for _, c := range r.containersOf(filter.GetPodSandboxId()) {
		status := c.status(r.image)
		if filter.GetId() != "" && filter.GetId() != c.id || filter.GetState() != nil && filter.GetState().GetState() != status.GetState() || !has(status.GetLabels(), filter.GetLabelSelector()) {
			continue
		}
		response.Containers = append(response.Containers, &cri.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: status.GetMetadata(), Image: status.GetImage(), ImageRef: status.GetImageRef(), ImageId: status.GetImageId(),
			State: status.GetState(), CreatedAt: status.GetCreatedAt(), Labels: status.GetLabels(), Annotations: status.GetAnnotations(),
		})
	}
	return response, nil
}

// ContainerStatus returns the state of a container.
func (r *containerRuntime) ContainerStatus(_ context.Context, request *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &cri.ContainerStatusResponse{Status: c.status(r.image)}, nil
}

func (c *container) status(img *image) *cri.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := &cri.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), CreatedAt: c.created, StartedAt: c.started, FinishedAt: c.finished,
		Image: c.config.GetImage(), ImageRef: img.id.String(), ImageId: img.id.String(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		Mounts: c.config.GetMounts(), LogPath: c.log.path, State: cri.ContainerState_CONTAINER_CREATED,
		User: &cri.ContainerUser{Linux: &cri.LinuxContainerUser{Uid: int64(c.spec.UID), Gid: int64(c.spec.GID)}},
	}
	for _, group := range c.spec.Groups {
		status.User.Linux.SupplementalGroups = append(status.User.Linux.SupplementalGroups, int64(group))
	}
	switch {
	case c.finished != 0:
		status.State, status.ExitCode, status.Reason = cri.ContainerState_CONTAINER_EXITED, int32(c.process.code), "Completed"
		if c.process.code != 0 {
			status.Reason = "Error"
		}
	case c.process != nil:
		status.State = cri.ContainerState_CONTAINER_RUNNING
	}
	return status
}
