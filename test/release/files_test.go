package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// script runs a program of a folder .ci, with settings as make gives them, and returns what it prints.
func script(t *testing.T, root, name string, settings map[string]string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", name))
	command.Env = os.Environ()
	for key, value := range settings {
		command.Env = append(command.Env, key+"="+value)
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// packs packs the chart of the sources in a folder, for an image that has an index only.
func packs(t *testing.T, root string) (b build, image, out string, err error) {
	t.Helper()
	b = build{root: root, registry: "registry.test:5000/team", version: later, dir: t.TempDir()}
	layout := filepath.Join(b.dir, "image", "oci")
	require.NoError(t, os.MkdirAll(layout, 0o755))
	require.NoError(t, os.MkdirAll(b.release(), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(layout, "index.json"), []byte("{}"), 0o600))
	sum, _, _ := strings.Cut(run(t, layout, "sha256sum", "index.json"), " ")
	out, err = script(t, root, "chart", map[string]string{
		"HELM": tool(t, "helm"), "VERSION": b.version, "SOURCE_DATE_EPOCH": "1700000000", "IMAGE": b.image(), "PROJECT": project,
		"FROM": filepath.Dir(layout), "TO": b.release(),
	})
	return b, b.image() + "@sha256:" + sum, out, err
}

// namesImageAndRepository looks at what Helm and Artifact Hub show of a packed chart.
func namesImageAndRepository(t *testing.T, b build, image string) {
	t.Helper()
	_, digest, _ := strings.Cut(image, "@")
	show := func(what string) string {
		t.Helper()
		shown, err := harness.RunHelm(t.Context(), "show", what, b.archive())
		require.NoError(t, err)
		return string(shown)
	}
	chart := show("chart")
	assert.Contains(t, chart, "image: "+b.image()+":"+b.version+"\n")
	assert.Contains(t, chart, "icon: "+project+"/raw/"+b.version+"/docs/images/icon.svg\n")
	assert.Contains(t, chart, "url: "+project+"/blob/"+b.version+"/SECURITY.md\n")
	assert.NotContains(t, chart, "https://example.com/")
	assert.NotContains(t, chart, "/main/", "what a release says of itself does not change with a branch")
	readme := show("readme")
	assert.Contains(t, readme, "\n| image.repository | string | `\""+b.image()+"\"` |")
	assert.Contains(t, readme, "\n| image.digest | string | `\""+digest+"\"` |")
	rendered, err := harness.RunHelm(t.Context(), "template", "nodekeep", b.archive())
	require.NoError(t, err)
	for _, found := range regexp.MustCompile(`image: (\S+)`).FindAllStringSubmatch(string(rendered), -1) {
		assert.Equal(t, image, found[1])
	}
}

func TestAPackedChartNamesImageAndRepositoryEverywhere(t *testing.T) {
	b, image, out, err := packs(t, harness.Root())
	require.NoError(t, err, out)
	namesImageAndRepository(t, b, image)
}

func TestAChartWithoutOneOfThePlacesIsNotPacked(t *testing.T) {
	for file, place := range map[string][2]string{
		"values.yaml": {"  digest: \"\"", "  digest: ''"},
		"README.md":   {"| image.repository |", "| image.name |"},
		"Chart.yaml":  {"image: nodekeep\n", "image: nodekeep:v1\n"},
	} {
		t.Run(file, func(t *testing.T) {
			root := copied(t)
			path := filepath.Join(root, "manifests", "chart", file)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(content), place[0])
			require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(content), place[0], place[1])), 0o600))
			_, _, out, err := packs(t, root)
			require.Error(t, err)
			assert.Contains(t, out, "nothing in manifests/chart/"+file+" matches ")
		})
	}
}

// On the commit of a release, the section of the version is the first one with content, and Unreleased is empty.
func TestTheNotesOfAReleaseAreItsSectionOfTheChangelog(t *testing.T) {
	const release = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2030-01-02\n\nNew: [a page](docs/policy.md#taints), [a site](https://a.test/b).\n\n## [0.1.0] - 2029-01-02\n\nOld.\n"
	for name, c := range map[string]struct {
		changelog, version, want, err string
	}{
		"of a release":                        {release, "v0.2.0", "## Changes\n\nNew: [a page](" + project + "/blob/v0.2.0/docs/policy.md#taints), [a site](https://a.test/b).\n", ""},
		"of the one before":                   {release, "v0.1.0", "## Changes\n\nOld.\n", ""},
		"of a build of the release's commit":  {release, "v9.0.0-dev", "## Changes\n\n", ""},
		"of a build between releases":         {strings.Replace(release, "[Unreleased]\n", "[Unreleased]\n\nNewer.\n", 1), "v0.3.0-dev", "## Changes\n\nNewer.\n", ""},
		"of a release without a section":      {release, "v0.3.0", "", "has no section [0.3.0]"},
		"of a release with an empty section":  {strings.Replace(release, "Old.", "", 1), "v0.1.0", "", "section [0.1.0]"},
		"of a build, and no section to begin": {strings.Replace(release, "## [Unreleased]\n", "", 1), "v0.3.0-dev", "", "has no section [Unreleased]"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "CHANGELOG.md")
			require.NoError(t, os.WriteFile(path, []byte(c.changelog), 0o600))
			out, err := script(t, harness.Root(), "notes", map[string]string{
				"CHANGELOG": path, "VERSION": c.version, "IMAGE": "r.test/nodekeep@sha256:0", "CHARTS": "r.test/charts", "REGISTRY": "r.test", "PROJECT": project,
			})
			if c.err != "" {
				require.Error(t, err)
				assert.Contains(t, out, c.err)
				return
			}
			require.NoError(t, err, out)
			assert.True(t, strings.HasSuffix(strings.TrimRight(out, "\n"), strings.TrimRight(c.want, "\n")), out)
			assert.NotContains(t, out, "registry.example.com")
			assert.NotContains(t, out, "OWNER")
			assert.Contains(t, out, "\n```bash\nversion=", "these commands have an array")
		})
	}
}

// A command that nobody finds any more would verify nothing, and the rest would succeed.
func TestTheCommandsOfSECURITYAreFoundAndFilledIn(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(harness.Root(), "SECURITY.md"))
	require.NoError(t, err)
	for name, c := range map[string]struct{ expression, with, err string }{
		"as they are":                    {"^$", "", ""},
		"no heading":                     {`(?m)^## Verify a release$`, "## Verify it", "SECURITY.md has no command cosign verify"},
		"no signature of an image":       {`(?m)^\$ cosign verify .*$`, "", "SECURITY.md has no command cosign verify"},
		"no attestation":                 {`(?m)^\$ cosign verify-attestation .*$`, "", "SECURITY.md has no command cosign verify-attestation"},
		"no signature of the checksums":  {`(?m)^\$ cosign verify-blob .*$`, "", "SECURITY.md has no command cosign verify-blob"},
		"no attestation of a file":       {`(?m)^\$ cosign verify-blob-attestation .*$`, "", "SECURITY.md has no command cosign verify-blob-attestation"},
		"no look at the checksums":       {`(?m)^\$ sha256sum .*$`, "", "SECURITY.md has no command sha256sum --check"},
		"the identity of another owner":  {`https://github\.com/OWNER/`, "https://github.com/OWNER/other-", "name another release"},
		"another name of the repository": {`https://github\.com/OWNER/`, "https://git.example.com/OWNER/", "name another release"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.CopyFS(filepath.Join(root, ".ci"), os.DirFS(filepath.Join(harness.Root(), ".ci"))))
			changed := regexp.MustCompile(c.expression).ReplaceAllString(string(page), c.with)
			assert.Equal(t, c.err == "", changed == string(page))
			require.NoError(t, os.WriteFile(filepath.Join(root, "SECURITY.md"), []byte(changed), 0o600))
			out, err := script(t, root, "commands", map[string]string{"VERSION": "v1.2.3", "REGISTRY": "r.test", "PROJECT": project})
			if c.err != "" {
				require.Error(t, err)
				assert.Contains(t, out, c.err)
				return
			}
			require.NoError(t, err, out)
			assert.Contains(t, out, "--certificate-identity="+project+"/.github/workflows/release.yaml@refs/tags/$version\"")
			assert.Contains(t, out, "\ncosign verify \"${signer[@]}\" r.test/nodekeep:$version\n")
		})
	}
}

// takesAnotherImage replaces the image of a release as docs/operating.md does, and by a kustomization of an operator.
func takesAnotherImage(t *testing.T, b build) {
	t.Helper()
	image := b.named(t)
	_, digest, _ := strings.Cut(image, "@")
	mirrored := "REGISTRY/nodekeep@" + digest
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "operating.md"))
	require.NoError(t, err)
	sed := regexp.MustCompile(`(?m)^\$ (sed .*) manifests/nodekeep\.yaml`).FindSubmatch(page)
	require.NotNil(t, sed, "the page shows how to name another image")
	places := regexp.MustCompile(`(?:image: |--image=)(\S+)`)
	for file, count := range map[string]int{"nodekeep.yaml": 2, "nodekeep-cert-manager.yaml": 2, "nodekeep-verify.yaml": 4} {
		content, err := os.ReadFile(filepath.Join(b.release(), file))
		require.NoError(t, err)
		changed := run(t, b.release(), "bash", "-c", string(sed[1])+" "+file)
		for want, text := range map[string]string{image: string(content), mirrored: changed} {
			found := places.FindAllStringSubmatch(text, -1)
			assert.Len(t, found, count, file)
			for _, place := range found {
				assert.Equal(t, want, place[1], file)
			}
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "release"), os.DirFS(b.release()))) // a kustomization takes no absolute path
	require.NoError(t, os.Mkdir(filepath.Join(dir, "overlay"), 0o755))
	for overlay, want := range map[string]string{
		"":                              image,
		"newName: registry.test/mirror": "registry.test/mirror@" + digest,
		"newName: registry.test/mirror, newTag: v1": "registry.test/mirror:v1",
	} {
		kustomization := "resources: [../release]\n"
		if overlay != "" {
			kustomization += "images: [{name: \"" + b.image() + "\", " + overlay + "}]\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay", "kustomization.yaml"), []byte(kustomization), 0o600))
		built := run(t, dir, harness.Binary("kubectl"), "kustomize", "overlay")
		assert.Equal(t, 2, strings.Count(built, "image: "+want+"\n"), overlay)
	}
}
