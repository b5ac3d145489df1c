package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// registerTimeout is how long the kubelet may take to answer; it may still be starting.
const registerTimeout = time.Minute

// devices is a device plugin. Calls that are not written here answer Unimplemented.
type devices struct {
	plugin.UnimplementedDevicePluginServer
	list []*plugin.Device
}

// serveDevices registers devices with the kubelet of this machine and serves them until it is stopped.
func serveDevices(args []string) error {
	flags := flag.NewFlagSet(devicesName, flag.ExitOnError)
	resource := flags.String("resource", "", "the name of the resource, example.com/gpu for example")
	count := flags.Int("count", 1, "how many devices there are")
	if err := flags.Parse(args); err != nil {
		return err
	}
	d := &devices{}
	for n := range *count {
		d.list = append(d.list, &plugin.Device{ID: fmt.Sprintf("device-%d", n), Health: plugin.Healthy})
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := waitForFile(stop, plugin.KubeletSocket); err != nil {
		return fmt.Errorf("wait for the kubelet: %w", err)
	}
	const endpoint = "machine.sock" // in the folder that the kubelet empties when it starts
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, d)
	running, fail := context.WithCancelCause(stop)
	go func() {
		if err := register(running, endpoint, *resource); err != nil {
			fail(fmt.Errorf("register with the kubelet: %w", err))
		}
	}()
	if err := serve(running, server, filepath.Join(plugin.DevicePluginPath, endpoint)); err != nil {
		return err
	}
	if stop.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// register registers a device plugin with the kubelet. The kubelet then calls it.
func register(ctx context.Context, endpoint, resource string) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	kubelet, err := grpc.NewClient("unix://"+plugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	_, err = plugin.NewRegistrationClient(kubelet).Register(ctx,
		&plugin.RegisterRequest{Version: plugin.Version, Endpoint: endpoint, ResourceName: resource}, grpc.WaitForReady(true))
	return err
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

func waitForFile(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not there: %w", path, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// GetDevicePluginOptions reports that nothing is to be called before a container starts.
func (d *devices) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch sends all devices once. They stay healthy until the plugin ends.
func (d *devices) ListAndWatch(_ *plugin.Empty, stream grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: d.list}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}
