package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy"
)

// placeholder stands for the address of the repository until a release is made.
const placeholder = "https://example.com/nodekeep"

type chartFile struct {
	Version, AppVersion, Home, Icon string
	Sources, Keywords               []string
	Maintainers                     []struct{ Name, URL string }
	Annotations                     map[string]string
}

// committed returns a file of the repository.
func committed(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", name))
	require.NoError(t, err)
	return string(content)
}

// chart returns what the chart says of itself.
func chart(t *testing.T) chartFile {
	t.Helper()
	var c chartFile
	require.NoError(t, yaml.Unmarshal([]byte(committed(t, "manifests/chart/Chart.yaml")), &c))
	return c
}

// annotation decodes what an annotation for Artifact Hub holds.
func annotation(t *testing.T, c chartFile, name string, into any) {
	t.Helper()
	text := c.Annotations["artifacthub.io/"+name]
	require.NotEmpty(t, text, name)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), into), name)
}

func TestWhatArtifactHubShowsOfTheChartIsTrue(t *testing.T) {
	c := chart(t)
	assert.Equal(t, placeholder, c.Home)
	assert.Equal(t, []string{placeholder}, c.Sources)
	assert.NotEmpty(t, c.Maintainers)
	assert.IsNonDecreasing(t, c.Keywords)
	assert.Contains(t, []string{"ai-machine-learning", "database", "integration-delivery", "monitoring-logging", "networking", "security", "storage", "streaming-messaging", "skip-prediction"},
		c.Annotations["artifacthub.io/category"])
	assert.Equal(t, "Apache-2.0", c.Annotations["artifacthub.io/license"])
	assert.Contains(t, committed(t, "LICENSE"), "Apache License\n                           Version 2.0")

	var images []struct {
		Name, Image string
		Platforms   []string
	}
	annotation(t, c, "images", &images)
	require.Len(t, images, 1)
	assert.Equal(t, "nodekeep", images[0].Image, "a packed chart names the version, too")
	assert.Equal(t, "v"+c.Version, c.AppVersion)
	platforms := regexp.MustCompile(`(?m)^PLATFORMS *= (.*)$`).FindStringSubmatch(committed(t, "Makefile"))
	require.NotNil(t, platforms)
	assert.Equal(t, strings.Fields(platforms[1]), images[0].Platforms)

	var kinds []struct{ Kind, Version, Name, DisplayName, Description string }
	annotation(t, c, "crds", &kinds)
	require.Len(t, kinds, 1)
	var definition struct {
		Metadata struct{ Name string }
		Spec     struct {
			Names    struct{ Kind string }
			Versions []struct{ Name string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(committed(t, "manifests/chart/crd.yaml")), &definition))
	assert.Equal(t, []string{definition.Metadata.Name, definition.Spec.Names.Kind, definition.Spec.Versions[0].Name}, []string{kinds[0].Name, kinds[0].Kind, kinds[0].Version})

	var examples []map[string]any
	annotation(t, c, "crdsExamples", &examples)
	require.Len(t, examples, 1)
	example, err := yaml.Marshal(examples[0])
	require.NoError(t, err)
	_, err = policy.Load(example, policy.DefaultGate)
	require.NoError(t, err)

	var changes []struct {
		Kind, Description string
		Links             []struct{ Name, URL string }
	}
	annotation(t, c, "changes", &changes)
	for _, change := range changes {
		assert.Contains(t, []string{"added", "changed", "deprecated", "removed", "fixed", "security"}, change.Kind)
		assert.NotEmpty(t, change.Description)
	}
	var links []struct{ Name, URL string }
	annotation(t, c, "links", &links)
	assert.Greater(t, len(links), 2)
}

// `make release` writes the repository's address in place of the placeholder, so a path must be one of this repository.
func TestEachAddressInTheChartLeadsToAFileOfTheRepository(t *testing.T) {
	found := 0
	for _, address := range regexp.MustCompile(`https://\S+`).FindAllString(committed(t, "manifests/chart/Chart.yaml"), -1) {
		require.True(t, strings.HasPrefix(address, placeholder), address)
		path := strings.TrimPrefix(strings.TrimPrefix(address, placeholder), "/")
		if path == "" || !strings.Contains(path, "/") {
			continue
		}
		found++
		kind, file, _ := strings.Cut(path, "/main/")
		assert.Contains(t, []string{"blob", "raw"}, kind, address)
		assert.FileExists(t, filepath.Join("../..", file))
	}
	assert.Greater(t, found, 5, "the addresses must have been read")
}

func TestTheIconIsASmallImageThatLoadsNothing(t *testing.T) {
	icon := committed(t, "docs/images/icon.svg")
	assert.True(t, strings.HasSuffix(chart(t).Icon, "/docs/images/icon.svg"))
	assert.Less(t, len(icon), 2000)
	decoder := xml.NewDecoder(strings.NewReader(icon))
	for elements := 0; ; elements++ {
		token, err := decoder.Token()
		if token == nil {
			assert.Greater(t, elements, 5)
			break
		}
		require.NoError(t, err)
		if element, ok := token.(xml.StartElement); ok {
			assert.Contains(t, []string{"svg", "rect", "path", "g", "circle"}, element.Name.Local)
			for _, attribute := range element.Attr {
				assert.NotContains(t, attribute.Name.Local, "href")
			}
		}
	}
}
