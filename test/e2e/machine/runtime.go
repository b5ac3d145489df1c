package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerRuntime is the runtime service of the CRI. Calls that are not written here answer Unimplemented.
type containerRuntime struct {
	cri.UnimplementedRuntimeServiceServer
	state   string
	image   *image
	network *network
	faults  faultsFile

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
}

// serveRuntime serves the CRI until it is stopped, and then ends all containers.
func serveRuntime(args []string) error {
	flags := flag.NewFlagSet(runtimeName, flag.ExitOnError)
	socket := flags.String("socket", "", "the socket to serve on")
	layout := flags.String("image", "", "the OCI layout with the one image")
	name := flags.String("image-name", "", "what pods call that image")
	state := flags.String("state", "", "a folder for the unpacked image and for containers")
	bridge := flags.String("bridge", "pods", "the network device that joins the machine and its pods")
	pods := flags.String("network", "10.244.0.1/24", "the machine's address on that, and the range of pods' addresses; IPv4")
	faults := flags.String("faults", "", "a JSON file with what is broken, read at each call; it may be missing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := &containerRuntime{state: *state, faults: faultsFile(*faults), sandboxes: map[string]*sandbox{}, containers: map[string]*container{}}
	var err error
	if r.image, err = unpack(*layout, *name, filepath.Join(*state, "image")); err != nil {
		return fmt.Errorf("unpack image: %w", err)
	}
	prefix, err := netip.ParsePrefix(*pods)
	if err != nil || !prefix.Addr().Is4() {
		return fmt.Errorf("read --network: %q is no IPv4 address with the length of its prefix", *pods)
	}
	if r.network, err = newNetwork(*bridge, prefix); err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	cri.RegisterRuntimeServiceServer(server, r)
	cri.RegisterImageServiceServer(server, &images{image: r.image, state: *state, faults: r.faults})
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := serve(stop, server, *socket); err != nil {
		return err
	}
	r.stopAll()
	return nil
}

// serve serves gRPC on a socket until it is stopped.
func serve(stop context.Context, server *grpc.Server, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) { // of a program that was killed
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	context.AfterFunc(stop, server.Stop)
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// logged logs calls that change something, and calls that fail.
func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	begun := time.Now()
	response, err := handle(ctx, request)
	method := filepath.Base(info.FullMethod)
	for _, verb := range []string{"Run", "Create", "Start", "Stop", "Remove", "Pull"} {
		if strings.HasPrefix(method, verb) || err != nil {
			fmt.Fprintln(os.Stderr, begun.UTC().Format("15:04:05.000"), method, request, "->", response, err, time.Since(begun).Round(time.Millisecond))
			break
		}
	}
	return response, err
}

// stopAll ends every container and every pod.
func (r *containerRuntime) stopAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range r.containers {
		all.Go(func() { c.stop(time.Second) })
	}
	all.Wait()
	for _, s := range r.sandboxes {
		s.stop(r.network)
	}
}

// Version returns which version of the CRI this is.
func (r *containerRuntime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "nodekeep-test-machine", RuntimeVersion: "0.1.0", RuntimeApiVersion: "v1"}, nil
}

// Status reports that all is well: the network is there before the first call can come.
func (r *containerRuntime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{
		Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
			{Type: cri.RuntimeReady, Status: true},
			{Type: cri.NetworkReady, Status: true},
		}},
		RuntimeHandlers: []*cri.RuntimeHandler{{Name: "", Features: &cri.RuntimeHandlerFeatures{}}},
		Features:        &cri.RuntimeFeatures{},
	}, nil
}

// RuntimeConfig returns which cgroup driver is used: none, but the kubelet wants an answer.
func (r *containerRuntime) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

// UpdateRuntimeConfig has nothing to do: the range of pod addresses is a flag.
func (r *containerRuntime) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

// ListContainerStats knows of no figures.
func (r *containerRuntime) ListContainerStats(context.Context, *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	return &cri.ListContainerStatsResponse{}, nil
}

// ListPodSandboxStats knows of no figures.
func (r *containerRuntime) ListPodSandboxStats(context.Context, *cri.ListPodSandboxStatsRequest) (*cri.ListPodSandboxStatsResponse, error) {
	return &cri.ListPodSandboxStatsResponse{}, nil
}

// ListMetricDescriptors knows of no metrics.
func (r *containerRuntime) ListMetricDescriptors(context.Context, *cri.ListMetricDescriptorsRequest) (*cri.ListMetricDescriptorsResponse, error) {
	return &cri.ListMetricDescriptorsResponse{}, nil
}

// ListPodSandboxMetrics knows of no metrics.
func (r *containerRuntime) ListPodSandboxMetrics(context.Context, *cri.ListPodSandboxMetricsRequest) (*cri.ListPodSandboxMetricsResponse, error) {
	return &cri.ListPodSandboxMetricsResponse{}, nil
}

func (r *containerRuntime) sandbox(id string) (*sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil {
		return s, nil
	}
	return nil, notFound("pod", id)
}

func (r *containerRuntime) container(id string) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		return c, nil
	}
	return nil, notFound("container", id)
}

// containersOf returns those of a pod, or all.
func (r *containerRuntime) containersOf(sandbox string) []*container {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*container
	for _, c := range r.containers {
		if sandbox == "" || c.sandbox.id == sandbox {
			list = append(list, c)
		}
	}
	return list
}

// notFound returns the error by which kubelets know that something does not exist.
func notFound(kind, id string) error {
	return status.Errorf(codes.NotFound, "there is no %s %s", kind, id)
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}
