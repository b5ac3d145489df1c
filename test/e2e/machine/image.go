package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageTimeout bounds the wait until the runtime has loaded an image.
const imageTimeout = 2 * time.Minute

// loadImage gives a container runtime an image, or takes it away. Kubelets see the difference when it returns.
func loadImage(args []string) error {
	flags := flag.NewFlagSet(imageName, flag.ExitOnError)
	socket := flags.String("socket", "", "the socket of the runtime")
	name := flags.String("name", "", "what pods call the image")
	archive := flags.String("archive", "", "the image as docker load reads it; without it the image is taken away")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), imageTimeout)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+*socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	images, image := cri.NewImageServiceClient(connection), &cri.ImageSpec{Image: *name}
	if *archive == "" {
		if _, err := images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: image}); err != nil {
			return fmt.Errorf("remove image %s: %w", *name, err)
		}
		return nil
	}
	load := exec.CommandContext(ctx, "ctr", "--address", *socket, "--namespace", "k8s.io", "images", "import", *archive)
	load.Stdout, load.Stderr = os.Stdout, os.Stderr
	if err := load.Run(); err != nil {
		return fmt.Errorf("import image %s: %w", *name, err)
	}
	for { // the service of the CRI learns of it by an event, and is not there at once when the runtime starts
		status, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: image}, grpc.WaitForReady(true))
		if err == nil && status.GetImage() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for image %s: %w", *name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
