package release

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// args returns the arguments of cosign to sign, and verifies those to verify, as the array signer of SECURITY.md has them.
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

// signs runs a command of cosign that makes a statement with the key.
func (s signer) signs(t *testing.T, command string, args ...string) {
	t.Helper()
	s.cosign(t, slices.Concat([]string{command, "--yes"}, s.args(), args)...)
}

// statements returns what cosign verifies of an artifact: the types of the statements that the key has made about it.
func (s signer) statements(t *testing.T, artifact string) (types []string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), tool(t, "cosign"), append(append([]string{"verify"}, strings.Fields(s.verifies())...), artifact)...)
	var errOut bytes.Buffer
	command.Stderr = &errOut
	out, err := command.Output()
	require.NoError(t, err, errOut.String())
	var all []struct {
		Critical struct {
			Type string `json:"type"`
		} `json:"critical"`
	}
	require.NoError(t, json.Unmarshal(out, &all), "%s", out)
	for _, statement := range all {
		types = append(types, statement.Critical.Type)
	}
	return types
}

// isSigned signs a release and its provenance with a key, and verifies both by the documented commands. Then it signs a later release step by step, and
// looks at which command refuses what is still missing.
func isSigned(t *testing.T, current, next build) {
	t.Setenv("COSIGN_PASSWORD", "")
	key := newSigner(t)
	current.make(t, "sign", "SIGNER="+strings.Join(key.args(), " "))
	chart, platforms := current.pushedChart(t), map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		platforms[arch] = current.platform(t, arch)
	}
	// Nothing is attested of index and chart yet. cosign takes an attestation for a signature, so the type is what counts.
	for _, artifact := range []string{current.named(t), chart, platforms["amd64"], platforms["arm64"]} {
		assert.Contains(t, key.statements(t, artifact), "https://sigstore.dev/cosign/sign/v1", artifact)
	}
	for _, artifact := range []string{current.named(t), chart} {
		key.provenanceOfImage(t, current, artifact)
	}
	key.provenanceOfFiles(t, current)

	out, err := current.verify(t, key)
	require.NoError(t, err, out)
	assert.Contains(t, out, "nodekeep-linux-amd64.tar.gz: OK\n")
	for _, subject := range []string{current.named(t), chart} {
		statement := attested(t, key, subject, "slsaprovenance1")
		assert.Equal(t, "https://in-toto.io/Statement/v1", statement.Type)
		assert.Equal(t, "https://slsa.dev/provenance/v1", statement.PredicateType)
		assert.Contains(t, subject, "@sha256:"+statement.Subject[0].Digest["sha256"])
	}
	for arch, image := range platforms {
		bill, err := os.ReadFile(filepath.Join(current.release(), "nodekeep-linux-"+arch+".cdx.json"))
		require.NoError(t, err)
		assert.JSONEq(t, string(bill), string(attested(t, key, image, "cyclonedx").Predicate), "the bill of materials of %s", arch)
	}
	eachIsVerified(t, next, key, newSigner(t))
	t.Run("a chart that is not the one pushed is not signed", func(t *testing.T) {
		require.NoError(t, os.WriteFile(next.archive(), []byte("another chart"), 0o600))
		out, err := next.tryMake(t, "sign", "SIGNER="+strings.Join(key.args(), " "))
		require.Error(t, err)
		assert.Contains(t, out, " is not "+next.archive())
	})
}

// eachIsVerified begins with a release that was only pushed. It lacks the statements of all steps; with that of a stranger a step is refused by the same
// command, and with the right one the next step is. So each command is there, and refuses on its own.
func eachIsVerified(t *testing.T, b build, key, stranger signer) {
	image, chart, linux := b.named(t), b.pushedChart(t), b.platform(t, "amd64")
	sums, bill, program := filepath.Join(b.release(), "SHA256SUMS"), filepath.Join(b.release(), "nodekeep-linux-amd64.cdx.json"), filepath.Join(b.release(), "nodekeep-linux-amd64.tar.gz")
	tagged, chartTagged := b.image()+":"+b.version, b.chart()+":"+strings.TrimPrefix(b.version, "v")
	refusedBy := func(t *testing.T, command ...string) {
		t.Helper()
		out, err := b.verify(t, key)
		require.Error(t, err, out)
		last := ""
		for line := range strings.Lines(out) {
			if shown, ok := strings.CutPrefix(line, "+ "); ok {
				last = strings.TrimSpace(shown)
			}
		}
		assert.True(t, strings.HasPrefix(last, command[0]+" "), "%s must refuse, not %s", command[0], last)
		for _, part := range command[1:] {
			assert.Contains(t, last, part)
		}
	}
	for _, step := range []struct {
		name    string
		command []string // that refuses without it
		add     func(t *testing.T, s signer)
	}{
		{"the signature of the chart", []string{"cosign verify", chartTagged}, func(t *testing.T, s signer) {
			s.signs(t, "sign", chart)
		}},
		{"the signature of the image", []string{"cosign verify", tagged}, func(t *testing.T, s signer) {
			s.signs(t, "sign", "--recursive", image)
		}},
		{"the provenance of the chart", []string{"cosign verify-attestation", "slsaprovenance1", chartTagged}, func(t *testing.T, s signer) {
			s.provenanceOfImage(t, b, chart)
		}},
		{"the provenance of the image", []string{"cosign verify-attestation", "slsaprovenance1", tagged}, func(t *testing.T, s signer) {
			s.provenanceOfImage(t, b, image)
		}},
		{"the bill of materials", []string{"cosign verify-attestation", "cyclonedx", linux}, func(t *testing.T, s signer) {
			s.signs(t, "attest", "--type", "cyclonedx", "--predicate", bill, linux)
		}},
		{"the signature of the checksums", []string{"cosign verify-blob", " SHA256SUMS"}, func(t *testing.T, s signer) {
			s.signs(t, "sign-blob", "--bundle", sums+".sigstore.json", sums)
		}},
		{"the provenance of the files", []string{"cosign verify-blob-attestation", "nodekeep-linux-amd64.tar.gz"}, func(t *testing.T, s signer) {
			s.provenanceOfFiles(t, b)
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			refusedBy(t, step.command...)
			step.add(t, stranger)
			refusedBy(t, step.command...)
			step.add(t, key)
		})
	}
	out, err := b.verify(t, key)
	require.NoError(t, err, out)
	require.NoError(t, os.WriteFile(program, []byte("another program"), 0o600))
	t.Run("a file that was changed", func(t *testing.T) { refusedBy(t, "sha256sum --check") })
	t.Run("a file that was changed together with its checksum", func(t *testing.T) {
		content, err := os.ReadFile(sums)
		require.NoError(t, err)
		sum, _, _ := strings.Cut(run(t, "", "sha256sum", program), " ")
		changed := regexp.MustCompile(`(?m)^\w+(  nodekeep-linux-amd64\.tar\.gz)$`).ReplaceAllString(string(content), sum+"$1")
		require.NotEqual(t, string(content), changed)
		require.NoError(t, os.WriteFile(sums, []byte(changed), 0o600))
		run(t, b.release(), "sha256sum", "--check", "SHA256SUMS")
		refusedBy(t, "cosign verify-blob", " SHA256SUMS")
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

// provenance writes what the action actions/attest-build-provenance attests in the workflow, in the form that this action has: where subjects come from,
// as SLSA describes it. It returns the file.
func (s signer) provenance(t *testing.T, b build, subjects ...subject) string {
	t.Helper()
	const repository = "https://github.com/OWNER/nodekeep"
	content, err := json.Marshal(statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1", Subject: subjects, Predicate: json.RawMessage(`{
		"buildDefinition": {
			"buildType": "https://actions.github.io/buildtypes/workflow/v1",
			"externalParameters": {"workflow": {"ref": "refs/tags/` + b.version + `", "repository": "` + repository + `", "path": ".github/workflows/release.yaml"}},
			"resolvedDependencies": [{"uri": "git+` + repository + `@refs/tags/` + b.version + `", "digest": {"gitCommit": "0123456789abcdef0123456789abcdef01234567"}}]
		},
		"runDetails": {"builder": {"id": "` + repository + `/.github/workflows/release.yaml@refs/tags/` + b.version + `"}}
	}`),
	})
	require.NoError(t, err)
	path := filepath.Join(s.dir, "statement.json")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// attests makes the bundle of a statement.
func (s signer) attests(t *testing.T, statement, bundle string) {
	t.Helper()
	s.signs(t, "attest-blob", "--type", "slsaprovenance1", "--statement", statement, "--bundle", bundle)
}

// provenanceOfImage attests the provenance of an image, or a chart, and puts it beside it into the registry.
func (s signer) provenanceOfImage(t *testing.T, b build, image string) {
	t.Helper()
	name, digest, _ := strings.Cut(image, "@sha256:")
	s.attests(t, s.provenance(t, b, subject{Name: name, Digest: map[string]string{"sha256": digest}}), "image.sigstore.json")
	s.cosign(t, "attach", "attestation", "--attestation", "image.sigstore.json", image)
}

// provenanceOfFiles attests the provenance of all files that have a checksum.
func (s signer) provenanceOfFiles(t *testing.T, b build) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(b.release(), "SHA256SUMS"))
	require.NoError(t, err)
	var files []subject
	for line := range strings.Lines(string(sums)) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		files = append(files, subject{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	s.attests(t, s.provenance(t, b, files...), filepath.Join(b.release(), "provenance.sigstore.json"))
}
