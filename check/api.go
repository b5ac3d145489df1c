package check

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"nodekeep.dev/nodekeep/verify"
)

// review is the SelfSubjectReview that is sent. Every account that is authenticated may create one.
const review = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`

// reviews is where it is sent.
const reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// API asks the API server who the worker is. net/http does: client-go would take more memory than the Pod has.
func (t try) API(*verify.API) error {
	ctx, cancel := t.single()
	defer cancel()
	p := t.pod
	if p.APIServer == "" {
		return failf(verify.ReasonNoToken, "KUBERNETES_SERVICE_HOST is not set: this is no Pod")
	}
	token, err := p.credential("token")
	if err != nil {
		return err
	}
	ca, err := p.credential("ca.crt")
	if err != nil {
		return err
	}
	roots, err := t.authorities(ca)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.APIServer+reviews, bytes.NewReader([]byte(review)))
	if err != nil {
		return failf(verify.ReasonNoToken, "the address of the API server, %q, is none", p.APIServer)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := p.ask(request, roots)
	if err != nil {
		return failing(err, "ask the API server at %s", p.APIServer)
	}
	defer func() { _ = response.Body.Close() }() // all of it was read
	switch response.StatusCode {
	case http.StatusCreated, http.StatusOK:
		return p.judge(response.Body)
	case http.StatusUnauthorized, http.StatusForbidden:
		return failf(verify.ReasonUnauthorized, "the API server at %s answered %s to the worker's token", p.APIServer, response.Status)
	}
	return failf(verify.ReasonWrongStatus, "the API server at %s answered %s", p.APIServer, response.Status)
}

// judge compares the account in an answer with the worker's own.
func (p Pod) judge(body io.Reader) error {
	var answer struct {
		Kind   string `json:"kind"`
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	text, err := io.ReadAll(body) // the connection is bounded
	if err != nil {
		return failing(err, "read the answer of the API server at %s", p.APIServer)
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Kind != "SelfSubjectReview" {
		return failf(verify.ReasonBadAnswer, "the API server at %s answered no SelfSubjectReview", p.APIServer)
	}
	namespace, err := p.credential("namespace")
	if err != nil {
		return err
	}
	account := answer.Status.UserInfo.Username
	if expected := "system:serviceaccount:" + namespace + ":" + verify.Account; account != expected {
		return failf(verify.ReasonWrongAccount, "the API server at %s takes the worker for %q, must be %q", p.APIServer, account[:min(len(account), 253)], expected)
	}
	return nil
}

// credential reads a file of the account.
func (p Pod) credential(name string) (string, error) {
	path := filepath.Join(p.Credentials, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", failf(verify.ReasonNoToken, "read the worker's credentials: %s", err)
	}
	if text := strings.TrimSpace(string(text)); text != "" {
		return text, nil
	}
	return "", failf(verify.ReasonNoToken, "read the worker's credentials: %s is empty", path)
}
