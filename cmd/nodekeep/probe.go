package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// probePatience is how long a process is given to answer. A Node that is very busy is no reason to start it again.
const probePatience = 5 * time.Second

// newProbeCommand returns what the kubelet runs in the container of capture. On the host network, replicas on one Node would need different ports for
// probes, so capture has none.
func newProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "probe SOCKET healthz|readyz",
		GroupID: processes,
		Short:   "Ask a process in the same container whether it lives or is ready",
		Long: "Asks a process that serves its probes on a socket. The manifests have the kubelet probe capture in this way.\n" +
			"It fails, and says why, if the process does not live or is not ready.",
		Args:      cobra.MatchAll(cobra.ExactArgs(2), func(command *cobra.Command, args []string) error { return cobra.OnlyValidArgs(command, args[1:]) }),
		ValidArgs: []string{"healthz", "readyz"},
		RunE: func(command *cobra.Command, args []string) error {
			return probe(command.Context(), args[0], args[1])
		},
	}
}

// probe is nil if the process that serves on a socket answers a path with 200. Else the error has what it says.
func probe(ctx context.Context, socket, path string) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://probe/"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the process: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", path, response.Status, body)
	}
	return nil
}
