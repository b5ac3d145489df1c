package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

const (
	pollInterval = 20 * time.Millisecond
	probeTimeout = 5 * time.Second
)

// errPortTaken is what a start fails with when another program listens on one of its ports.
var errPortTaken = errors.New("port is taken")

// probe shows whether something is ready: nil means yes.
type probe func(ctx context.Context) error

// await asks until all probes are content. It gives up at once when the process ends, and returns how.
func await(ctx context.Context, p *Process, probes ...probe) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	go func() {
		// Another program on the port of an ended one may keep a probe waiting.
		select {
		case <-p.Exited():
			cancel()
		case <-ctx.Done():
		}
	}()
	var last error
	for ctx.Err() == nil {
		if last = all(ctx, probes); last == nil && p.running() {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	log := logTail(p)
	switch {
	case p.running():
		return fmt.Errorf("wait for %s: %w (it last answered: %w); the end of its log:\n%s", p.Name(), ctx.Err(), last, log)
	case bytes.Contains(log, []byte("address already in use")):
		return fmt.Errorf("wait for %s: %w", p.Name(), errPortTaken)
	}
	return fmt.Errorf("wait for %s: it ended: %w; the end of its log:\n%s", p.Name(), p.Wait(), log)
}

func all(ctx context.Context, probes []probe) error {
	for _, probe := range probes {
		if err := probe(ctx); err != nil {
			return err
		}
	}
	return nil
}

// logTail returns what a program printed last, as far as it can be read.
func logTail(p *Process) []byte {
	const tail = 4000
	log, _ := os.ReadFile(p.LogPath())
	return log[max(0, len(log)-tail):]
}

// awaitAPIServer waits until the API server is ready and has made the namespace that everything else needs.
func (c *Cluster) awaitAPIServer(ctx context.Context, p *Process) error {
	ready, err := c.get("/readyz", "/api/v1/namespaces/default")
	if err != nil {
		return err
	}
	return await(ctx, p, ready...)
}

// awaitControllerManager waits for the first thing that the controller manager makes and Pods need.
func (c *Cluster) awaitControllerManager(ctx context.Context) error {
	ready, err := c.get("/api/v1/namespaces/default/serviceaccounts/default")
	if err != nil {
		return err
	}
	return await(ctx, c.Process(controllerManagerName), ready...)
}

// get makes probes of paths of the API server. A plain HTTP client asks them, because client-go sleeps for as long as a
// starting API server's Retry-After says.
func (c *Cluster) get(paths ...string) ([]probe, error) {
	config := c.Admin()
	config.Timeout = probeTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client of API server: %w", err)
	}
	probes := make([]probe, len(paths))
	for i, path := range paths {
		probes[i] = func(ctx context.Context) error { return answer(ctx, client, c.url+path) }
	}
	return probes, nil
}

// answers returns a probe of a plain URL.
func answers(url string) probe {
	return func(ctx context.Context) error { return answer(ctx, &http.Client{Timeout: probeTimeout}, url) }
}

func answer(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	return nil
}
