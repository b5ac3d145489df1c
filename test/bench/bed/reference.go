package bed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/test/harness"
)

// ReferenceCommand is the argument with which this program is started again as the server of the reference webhooks. They share no process, and no
// garbage collector, with the clients.
const ReferenceCommand = "reference"

// reference is the running server of the webhooks that nodekeep is compared with.
type reference struct {
	process *harness.Process
	address string
	web     *http.Client
}

// startReference starts the server when it is needed first.
func (b *Bed) startReference(ctx context.Context) error {
	if b.reference != nil {
		return nil
	}
	free, err := harness.FreeAddresses(1)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(b.certificate)
	r := &reference{address: free[0], web: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}},
	}}
	if r.process, err = b.cluster.Go(ReferenceCommand, self, []string{ReferenceCommand, r.address, filepath.Join(b.cluster.Dir(), certFile), filepath.Join(b.cluster.Dir(), keyFile)}); err != nil {
		return err
	}
	err = Await(ctx, settles, Look, func(ctx context.Context) (bool, error) {
		_, err := r.served(ctx)
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for reference webhooks: %w", err)
	}
	b.reference = r
	return nil
}

// served is how many reviews were answered so far; 0 where no server runs.
func (r *reference) served(ctx context.Context) (int, error) {
	if r == nil {
		return 0, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.address+countPath, nil)
	if err != nil {
		return 0, fmt.Errorf("count reviews: %w", err)
	}
	response, err := r.web.Do(request)
	if err != nil {
		return 0, fmt.Errorf("count reviews: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("count reviews: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(body)))
}
