package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageTimeout bounds the wait until the runtime serves and has an image. It is looked for every imagePoll.
const (
	imageTimeout = 2 * time.Minute
	imagePoll    = 20 * time.Millisecond
)

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
	connection, err := grpc.NewClient("unix://"+*socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: imagePoll, Multiplier: 1, MaxDelay: imagePoll}}))
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
	serves := func(*cri.Image) bool { return true }
	if err := untilImage(ctx, images, image, serves); err != nil {
		return err
	}
	load := exec.CommandContext(ctx, "ctr", "--address", *socket, "--namespace", "k8s.io", "images", "import", *archive)
	load.Stdout, load.Stderr = os.Stdout, os.Stderr
	if err := load.Run(); err != nil {
		return fmt.Errorf("import image %s: %w", *name, err)
	}
	return untilImage(ctx, images, image, func(found *cri.Image) bool { return found != nil }) // which it learns by an event
}

// untilImage waits until a runtime serves, and an image in it is as it should be: nil if it has none of that name.
func untilImage(ctx context.Context, images cri.ImageServiceClient, image *cri.ImageSpec, holds func(*cri.Image) bool) error {
	for {
		status, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: image}, grpc.WaitForReady(true))
		if err == nil && holds(status.GetImage()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the runtime and its image %s: %w", image.GetImage(), errors.Join(ctx.Err(), err))
		case <-time.After(imagePoll):
		}
	}
}
