package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share.
var nodekeep *harness.Installation

// apiServerName is the common name by which the API server calls webhooks that ask for a client certificate; callers is who signed it.
const apiServerName = "kube-apiserver-of-the-tests"

var callers *harness.Authority

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nodekeep-admission-")
	if err == nil {
		err = admissionConfiguration(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := harness.Options{APIServerArgs: []string{"--admission-control-config-file=" + filepath.Join(dir, "admission.yaml")}}
	code := harness.RunTests(m, options, func(i *harness.Installation) {
		nodekeep = i
		if err := prepare(i); err != nil {
			panic(err) // without a port to listen on nothing here can run
		}
	})
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// admissionConfiguration writes what docs/operating.md shows: the API server identifies itself to webhooks that ask for it.
func admissionConfiguration(dir string) error {
	var err error
	if callers, err = harness.NewAuthority(); err != nil {
		return err
	}
	certificate, key, err := callers.Client(apiServerName)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	admission := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		admission += fmt.Sprintf(`- name: %s
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %s
`, plugin, in("kubeconfig.yaml"))
	}
	for name, content := range map[string]string{
		"client.crt": string(certificate), "client.key": string(key), "admission.yaml": admission,
		"kubeconfig.yaml": fmt.Sprintf(`apiVersion: v1
kind: Config
users:
- name: '*'
  user: {client-certificate: %q, client-key: %q}
`, in("client.crt"), in("client.key")),
	} {
		if err := os.WriteFile(in(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write admission configuration: %w", err)
		}
	}
	return nil
}
