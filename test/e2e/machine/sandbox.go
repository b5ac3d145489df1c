package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is a pod: what its containers share.
type sandbox struct {
	id      string
	config  *cri.PodSandboxConfig
	created int64
	ready   bool

	// Of pods that are not on the host network.
	pause   *process
	address netip.Addr
}

// resolverFile returns what the pod's containers see as /etc/resolv.conf.
func (r *containerRuntime) resolverFile(s *sandbox) string {
	return filepath.Join(r.state, "sandboxes", s.id, "resolv.conf")
}

// resolver returns the content of a resolv.conf(5).
func resolver(config *cri.DNSConfig) []byte {
	var text bytes.Buffer
	for _, server := range config.GetServers() {
		fmt.Fprintln(&text, "nameserver", server)
	}
	if searches := config.GetSearches(); len(searches) > 0 {
		fmt.Fprintln(&text, "search", strings.Join(searches, " "))
	}
	if options := config.GetOptions(); len(options) > 0 {
		fmt.Fprintln(&text, "options", strings.Join(options, " "))
	}
	return text.Bytes()
}

func (s *sandbox) onHost() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE
}

func (s *sandbox) state() cri.PodSandboxState {
	if s.ready {
		return cri.PodSandboxState_SANDBOX_READY
	}
	return cri.PodSandboxState_SANDBOX_NOTREADY
}

// join opens the namespaces that the pod's containers join.
func (s *sandbox) join() (files []*os.File, err error) {
	if s.onHost() {
		return nil, nil
	}
	for _, name := range []string{"net", "ipc", "uts"} {
		file, err := s.pause.namespace(name)
		if err != nil {
			return files, fmt.Errorf("open namespace of pod: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// stop ends the pause process; its namespaces go with it, and with them the pod's devices.
func (s *sandbox) stop(n *network) {
	if s.pause != nil {
		s.pause.stop(syscall.SIGTERM, time.Second)
		n.free(s.address)
		s.pause = nil
	}
	s.ready = false
}

// RunPodSandbox makes a pod.
func (r *containerRuntime) RunPodSandbox(_ context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	s := &sandbox{id: newID(), config: request.GetConfig(), created: time.Now().UnixNano(), ready: true}
	if handler := request.GetRuntimeHandler(); handler != "" {
		return nil, fmt.Errorf("run pod: runtime handler %q: not served here", handler)
	}
	if len(s.config.GetLinux().GetSysctls()) > 0 {
		return nil, fmt.Errorf("run pod: kernel settings of its own: not served here")
	}
	faults, err := r.faults.read()
	if err != nil {
		return nil, fmt.Errorf("run pod: %w", err)
	}
	if err := writeFile(r.resolverFile(s), resolver(s.config.GetDnsConfig())); err != nil {
		return nil, fmt.Errorf("run pod: %w", err)
	}
	if !s.onHost() {
		if s.pause, err = start(self(pauseName, s.config.GetHostname()), unix.CLONE_NEWNET|unix.CLONE_NEWIPC|unix.CLONE_NEWUTS); err != nil {
			return nil, fmt.Errorf("run pod: %w", err)
		}
		if s.address, err = r.network.join(s.pause.command.Process.Pid, faults.Lost); err != nil {
			s.pause.stop(syscall.SIGKILL, time.Second)
			return nil, fmt.Errorf("run pod: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes[s.id] = s
	return &cri.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// StopPodSandbox kills what still runs in a pod and takes its network away. It may be called again.
func (r *containerRuntime) StopPodSandbox(_ context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	for _, c := range r.containersOf(request.GetPodSandboxId()) {
		c.stop(0)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[request.GetPodSandboxId()]; s != nil {
		s.stop(r.network)
	}
	return &cri.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox forgets a pod and its containers. It may be called again.
func (r *containerRuntime) RemovePodSandbox(ctx context.Context, request *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	id := request.GetPodSandboxId()
	if _, err := r.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return nil, err
	}
	for _, c := range r.containersOf(id) {
		if _, err := r.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.id}); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil {
		if err := os.RemoveAll(filepath.Dir(r.resolverFile(s))); err != nil {
			return nil, fmt.Errorf("remove pod: %w", err)
		}
	}
	delete(r.sandboxes, id)
	return &cri.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus returns the state and address of a pod.
func (r *containerRuntime) PodSandboxStatus(_ context.Context, request *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[request.GetPodSandboxId()]
	if s == nil {
		return nil, notFound("pod", request.GetPodSandboxId())
	}
	status := &cri.PodSandboxStatus{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created, Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(),
		Network: &cri.PodSandboxNetworkStatus{},
		Linux:   &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}
	if s.pause != nil {
		status.Network.Ip = s.address.String()
	}
	return &cri.PodSandboxStatusResponse{Status: status}, nil
}

// ListPodSandbox lists the pods that a filter selects.
func (r *containerRuntime) ListPodSandbox(_ context.Context, request *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	filter := request.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	response := &cri.ListPodSandboxResponse{}
	for _, s := range r.sandboxes {
		if filter.GetId() != "" && filter.GetId() != s.id || filter.GetState() != nil && filter.GetState().GetState() != s.state() || !has(s.config.GetLabels(), filter.GetLabelSelector()) {
			continue
		}
		response.Items = append(response.Items, &cri.PodSandbox{
			Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created, Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(),
		})
	}
	return response, nil
}

// has reports whether labels hold all those that a selector names.
func has(labels, selector map[string]string) bool {
	for key, value := range selector {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}
