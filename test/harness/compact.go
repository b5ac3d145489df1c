package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Compact has etcd forget all revisions but the newest, as the API server has it every five minutes. A watch cannot continue from an older one. Until
// it is restarted, the API server still serves what is in its memory.
func (c *Cluster) Compact(ctx context.Context) error {
	if c.etcdURL == "" {
		return errors.New("compact etcd: it was not started by this process")
	}
	var newest struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := c.etcd(ctx, "/v3/kv/range", map[string]any{"key": []byte("/"), "limit": 1}, &newest); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	if err := c.etcd(ctx, "/v3/kv/compaction", map[string]any{"revision": newest.Header.Revision, "physical": true}, nil); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// etcd calls etcd's JSON gateway.
func (c *Cluster) etcd(ctx context.Context, path string, body, target any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, response.Status)
	}
	if target == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(target)
}
