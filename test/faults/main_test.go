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

var callers *authority

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nodekeep-admission-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	callers = newAuthority(atStart{}, "callers of webhooks")
	options := harness.Options{APIServerArgs: []string{"--admission-control-config-file=" + admissionConfiguration(atStart{}, dir, callers.client(atStart{}, apiServerName))}}
	return harness.RunTests(m, options, func(i *harness.Installation) { nodekeep = i })
}

// atStart is a test that ends the process when it fails.
type atStart struct{ testing.TB }

func (atStart) Helper()                           {}
func (atStart) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (atStart) FailNow()                          { os.Exit(1) }

// admissionConfiguration writes what docs/operating.md shows: the API server identifies itself to webhooks that ask for it.
func admissionConfiguration(t testing.TB, dir string, identity pair) (path string) {
	t.Helper()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Errorf("write %s: %v", name, err)
			t.FailNow()
		}
		return name
	}
	kubeconfig := file("kubeconfig.yaml", fmt.Sprintf(`apiVersion: v1
kind: Config
users:
- name: '*'
  user:
    client-certificate: %s
    client-key: %s
`, file("client.crt", string(identity.certificate)), file("client.key", string(identity.key))))
	plugin := func(name string) string {
		return fmt.Sprintf(`- name: %s
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %s
`, name, kubeconfig)
	}
	return file("admission.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"+
		plugin("MutatingAdmissionWebhook")+plugin("ValidatingAdmissionWebhook"))
}
