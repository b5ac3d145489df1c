package release

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// signer is a key of a test, in place of the identity that the workflow has.
type signer struct{ dir string }

// newSigner makes a key, and settings by which cosign asks no service of Sigstore.
func newSigner(t *testing.T) signer {
	t.Helper()
	s := signer{dir: t.TempDir()}
	s.cosign(t, "generate-key-pair")
	s.cosign(t, "signing-config", "create", "--out", "services.json")
	s.cosign(t, "trusted-root", "create", "--out", "root.json")
	return s
}

// args returns the arguments of cosign to sign, and verifies those to verify, as $signer of SECURITY.md has them.
func (s signer) args() []string {
	return []string{
		"--key=" + filepath.Join(s.dir, "cosign.key"), "--signing-config=" + filepath.Join(s.dir, "services.json"), "--trusted-root=" + filepath.Join(s.dir, "root.json"),
	}
}

func (s signer) verifies() string {
	return "--key=" + filepath.Join(s.dir, "cosign.pub") + " --insecure-ignore-tlog"
}

func (s signer) cosign(t *testing.T, args ...string) {
	t.Helper()
	run(t, s.dir, tool(t, "cosign"), args...)
}

// isSigned signs a release and its provenance with a key, and verifies both by the documented commands. Another key, a file that was changed and
// a release that was only pushed are refused.
func isSigned(t *testing.T, current, next build) {
	t.Setenv("COSIGN_PASSWORD", "")
	key := newSigner(t)
	current.make(t, "sign", "SIGNER="+strings.Join(key.args(), " "))
	chart := current.pushedChart(t)
	attestProvenance(t, key, current, chart)

	out, err := current.verify(t, key)
	require.NoError(t, err, out)
	assert.Contains(t, out, "nodekeep-linux-amd64.tar.gz: OK\n")
	for _, subject := range []string{current.named(t), chart} {
		statement := attested(t, key, subject, "slsaprovenance1")
		assert.Equal(t, "https://in-toto.io/Statement/v1", statement.Type)
		assert.Equal(t, "https://slsa.dev/provenance/v1", statement.PredicateType)
		assert.Contains(t, subject, "@sha256:"+statement.Subject[0].Digest["sha256"])
	}
	for _, platform := range []string{"amd64", "arm64"} {
		digest := strings.TrimSpace(run(t, "", tool(t, "crane"), "digest", "--platform", "linux/"+platform, current.named(t)))
		bill, err := os.ReadFile(filepath.Join(current.release(), "nodekeep-linux-"+platform+".cdx.json"))
		require.NoError(t, err)
		assert.JSONEq(t, string(bill), string(attested(t, key, current.image()+"@"+digest, "cyclonedx").Predicate), "the bill of materials of %s", platform)
	}

	t.Run("another key does not verify it", func(t *testing.T) {
		out, err := current.verify(t, newSigner(t))
		require.Error(t, err, out)
	})
	t.Run("checksums that were changed are not verified", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(current.release(), "SHA256SUMS"), []byte("\n"), 0o600))
		out, err := current.verify(t, key)
		require.Error(t, err, out)
		assert.NotContains(t, out, ": OK\n")
	})
	t.Run("a release that was only pushed is not verified", func(t *testing.T) {
		out, err := next.verify(t, key)
		require.Error(t, err)
		assert.Contains(t, out, "no signatures found")
	})
	t.Run("a chart that is not the one pushed is not signed", func(t *testing.T) {
		require.NoError(t, os.WriteFile(next.archive(), []byte("another chart"), 0o600))
		out, err := next.tryMake(t, "sign", "SIGNER="+strings.Join(key.args(), " "))
		require.Error(t, err)
		assert.Contains(t, out, " is not "+next.archive())
	})
}

// verify runs the commands by which SECURITY.md verifies a release, with the key of a signer.
func (b build) verify(t *testing.T, key signer) (string, error) {
	t.Helper()
	return b.tryMake(t, "verify", "SIGNER="+key.verifies())
}

// statement is an attestation in the format of in-toto.
type statement struct {
	Type          string          `json:"_type"`
	PredicateType string          `json:"predicateType"`
	Subject       []subject       `json:"subject"`
	Predicate     json.RawMessage `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// attested returns what an image is attested to have, after its signature was verified.
func attested(t *testing.T, key signer, image, kind string) (s statement) {
	t.Helper()
	command := exec.CommandContext(t.Context(), tool(t, "cosign"), append(append([]string{"verify-attestation"}, strings.Fields(key.verifies())...), "--type", kind, image)...)
	var errOut bytes.Buffer
	command.Stderr = &errOut
	out, err := command.Output()
	require.NoError(t, err, errOut.String())
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, len(out)+1)
	require.True(t, lines.Scan(), "an attestation")
	var envelope struct {
		Payload string `json:"payload"`
	}
	require.NoError(t, json.Unmarshal(lines.Bytes(), &envelope))
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(payload, &s))
	return s
}

// attestProvenance does what the action actions/attest-build-provenance does in the workflow: it attests where image, chart and files come from, as SLSA
// describes it, in the form that this action has.
func attestProvenance(t *testing.T, key signer, b build, chart string) {
	t.Helper()
	const repository = "https://github.com/OWNER/nodekeep"
	provenance := json.RawMessage(`{
		"buildDefinition": {
			"buildType": "https://actions.github.io/buildtypes/workflow/v1",
			"externalParameters": {"workflow": {"ref": "refs/tags/` + b.version + `", "repository": "` + repository + `", "path": ".github/workflows/release.yaml"}},
			"resolvedDependencies": [{"uri": "git+` + repository + `@refs/tags/` + b.version + `", "digest": {"gitCommit": "0123456789abcdef0123456789abcdef01234567"}}]
		},
		"runDetails": {"builder": {"id": "` + repository + `/.github/workflows/release.yaml@refs/tags/` + b.version + `"}}
	}`)
	write := func(file string, subjects ...subject) string {
		t.Helper()
		content, err := json.Marshal(statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1", Subject: subjects, Predicate: provenance})
		require.NoError(t, err)
		path := filepath.Join(key.dir, file)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	attest := func(statement, bundle string) {
		t.Helper()
		key.cosign(t, append(append([]string{"attest-blob", "--yes"}, key.args()...), "--type", "slsaprovenance1", "--statement", statement, "--bundle", bundle)...)
	}
	for _, image := range []string{b.named(t), chart} {
		name, digest, _ := strings.Cut(image, "@sha256:")
		attest(write("image.json", subject{Name: name, Digest: map[string]string{"sha256": digest}}), "image.sigstore.json")
		key.cosign(t, "attach", "attestation", "--attestation", "image.sigstore.json", image)
	}
	sums, err := os.ReadFile(filepath.Join(b.release(), "SHA256SUMS"))
	require.NoError(t, err)
	var files []subject
	for line := range strings.Lines(string(sums)) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		files = append(files, subject{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	attest(write("files.json", files...), filepath.Join(b.release(), "provenance.sigstore.json"))
}
