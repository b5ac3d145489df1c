package image

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// One image is built for all that looks at it.
func TestTheImage(t *testing.T) {
	made := makeImage(t, root)
	contained := t.TempDir()
	require.NoError(t, os.Chmod(contained, 0o755))
	names := made.unpack(t, contained)

	t.Run("is one program and nothing else", func(t *testing.T) {
		assert.Equal(t, []string{"nodekeep"}, names)
		assert.Equal(t, []string{"/nodekeep"}, made.config.Config.Entrypoint)
		assert.Empty(t, made.config.Config.Cmd)
		assert.Equal(t, "linux/"+runtime.GOARCH, made.config.OS+"/"+made.config.Architecture)
		assert.True(t, made.config.Created.Equal(time.Unix(1700000000, 0)), "dated with the commit")
	})
	t.Run("is the same when it is built again elsewhere", func(t *testing.T) {
		assert.Equal(t, made.digest, makeImage(t, copySources(t)).digest)
	})
	t.Run("says in its labels what the program says", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(contained, "nodekeep"), "version").Output()
		require.NoError(t, err)
		labels := made.config.Config.Labels
		assert.Equal(t, chart(t).AppVersion, labels["org.opencontainers.image.version"])
		assert.Equal(t, "0123456789abcdef0123456789abcdef01234567", labels["org.opencontainers.image.revision"])
		assert.Contains(t, string(out), "version: "+labels["org.opencontainers.image.version"]+"\n")
		assert.Contains(t, string(out), "commit:  "+labels["org.opencontainers.image.revision"]+"\n")
		assert.Contains(t, string(out), runtime.Version()+" linux/"+runtime.GOARCH)
	})
	t.Run("is what the Dockerfile describes", func(t *testing.T) { isWhatTheDockerfileDescribes(t, made.config) })
	t.Run("has the user that the chart asks for", func(t *testing.T) {
		manifest, err := os.ReadFile(filepath.Join(root, "manifests", "nodekeep.yaml"))
		require.NoError(t, err)
		found := regexp.MustCompile(`runAsUser: (\d+)\n\s+runAsGroup: (\d+)\n`).FindAllSubmatch(manifest, -1)
		require.NotEmpty(t, found)
		for _, ids := range found {
			assert.Equal(t, made.config.Config.User, string(ids[1])+":"+string(ids[2]))
		}
	})
	t.Run("has a bill of materials that names every module of the program", func(t *testing.T) { isDescribed(t, made) })
	t.Run("runs read-only as its user and does its work", func(t *testing.T) { runsContained(t, contained, made.config.Config.User) })
}

// isDescribed compares what `make sbom` writes with what the Go linker noted in the program.
func isDescribed(t *testing.T, made built) {
	platform := "linux/" + runtime.GOARCH
	out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", root, "sbom", "IMAGE_DIR=" + made.dir, "PLATFORMS=" + platform}, stamped...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	var bill struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component struct {
				Name, Version string
			}
		}
		Components []struct {
			Name, Version, PURL string
			Hashes              []struct{ Content string }
		}
	}
	made.read(t, filepath.Join(made.dir, "nodekeep-linux-"+runtime.GOARCH+".cdx.json"), &bill)
	assert.Equal(t, "CycloneDX", bill.BOMFormat)
	assert.Equal(t, "nodekeep.dev/nodekeep "+chart(t).AppVersion, bill.Metadata.Component.Name+" "+bill.Metadata.Component.Version)
	info, err := buildinfo.ReadFile(filepath.Join(made.dir, "binaries", platform, "nodekeep"))
	require.NoError(t, err)
	want := []string{"std " + info.GoVersion}
	for _, module := range info.Deps {
		want = append(want, module.Path+" "+module.Version)
	}
	var got []string
	for _, component := range bill.Components {
		got = append(got, component.Name+" "+component.Version)
		assert.Contains(t, component.PURL, "pkg:golang/"+component.Name+"@")
		if component.Name != "std" {
			assert.NotEmpty(t, component.Hashes, component.Name)
		}
	}
	assert.ElementsMatch(t, want, got)
}

// isWhatTheDockerfileDescribes compares the last stage, and how the program is built.
func isWhatTheDockerfileDescribes(t *testing.T, made config) {
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	lines := strings.ReplaceAll(string(content), "\\\n", " ")
	stages := strings.Split(lines, "\nFROM ")
	require.Len(t, stages, 3)
	last := map[string]string{}
	for _, line := range strings.Split("FROM "+stages[2], "\n") {
		instruction, rest, _ := strings.Cut(line, " ")
		require.NotContains(t, last, instruction, "one of each, or this test must learn more")
		last[instruction] = strings.TrimSpace(rest)
	}
	delete(last, "")
	delete(last, "ARG")
	var entrypoint []string
	require.NoError(t, json.Unmarshal([]byte(last["ENTRYPOINT"]), &entrypoint))
	assert.Equal(t, made.Config.Entrypoint, entrypoint)
	assert.Equal(t, made.Config.User, last["USER"])
	assert.Equal(t, "scratch", last["FROM"])
	assert.Equal(t, "--from=build /nodekeep "+entrypoint[0], last["COPY"])

	argument := strings.NewReplacer("$VERSION", made.Config.Labels["org.opencontainers.image.version"], "$COMMIT", made.Config.Labels["org.opencontainers.image.revision"])
	labels := map[string]string{}
	for _, label := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(last["LABEL"], -1) {
		labels[label[1]] = argument.Replace(label[2])
	}
	assert.Equal(t, made.Config.Labels, labels)
	for _, known := range []string{"FROM", "LABEL", "COPY", "USER", "ENTRYPOINT"} {
		delete(last, known)
	}
	assert.Empty(t, last, "instructions that `make image` does not follow")

	dry, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", root, "--dry-run", "image", "PLATFORMS=linux/amd64"}, stamped...)...).Output()
	require.NoError(t, err)
	assert.Equal(t, buildFlags(t, string(dry)), argument.Replace(buildFlags(t, stages[1])), "the same flags, or it is another program")
	goVersion := regexp.MustCompile(`(?m)^ARG GO_VERSION=(\S+)$`).FindStringSubmatch(stages[0])
	require.NotNil(t, goVersion)
	assert.Regexp(t, `^1\.\d+\.\d+$`, goVersion[1], "a release, or it is another program next month")
}

// buildFlags returns those of the only `go build` in a text.
func buildFlags(t *testing.T, text string) string {
	t.Helper()
	found := regexp.MustCompile(`CGO_ENABLED=0 [^\n]*\bgo build (.*) -o `).FindAllStringSubmatch(text, -1)
	require.Len(t, found, 1, text)
	return found[0][1]
}

// about is what the chart says of itself.
type about struct {
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

func chart(t *testing.T) (c about) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "manifests", "chart", "Chart.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, &c))
	return c
}

func TestTheVersionIsTheSameEverywhere(t *testing.T) {
	c := chart(t)
	assert.Equal(t, "v"+c.Version, c.AppVersion)
	for _, manifest := range []string{"nodekeep.yaml", "nodekeep-cert-manager.yaml"} {
		content, err := os.ReadFile(filepath.Join(root, "manifests", manifest))
		require.NoError(t, err)
		images := regexp.MustCompile(`(?m)^ +image: (\S+)$`).FindAllStringSubmatch(string(content), -1)
		require.NotEmpty(t, images)
		for _, image := range images {
			assert.Equal(t, "nodekeep:"+c.AppVersion, image[1], manifest)
		}
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	require.NoError(t, err)
	assert.Contains(t, string(changelog), "\n## [Unreleased]\n", "what comes next; it is empty on the commit of a release")
	if release, development := strings.CutSuffix(c.Version, "-dev"); !development {
		assert.Contains(t, string(changelog), "\n## ["+release+"] - ", "what is new in it")
	}
}
