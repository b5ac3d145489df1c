package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"
)

// The program that is described is this test, which has modules of its own.
func described(t *testing.T) (file string) {
	t.Helper()
	in := binaries(t, "linux/amd64")
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Remove(in.binary("linux/amd64")))
	require.NoError(t, os.Symlink(self, in.binary("linux/amd64")))
	require.NoError(t, writeSBOMs(in, tried, io.Discard))
	return in.made("linux/amd64", ".cdx.json")
}

func TestTheBillNamesEveryModuleThatTheProgramHas(t *testing.T) {
	content, err := os.ReadFile(described(t))
	require.NoError(t, err)
	var bom cdx.BOM
	require.NoError(t, json.Unmarshal(content, &bom))
	var got, want []string
	for _, component := range *bom.Components {
		got = append(got, component.Name+" "+component.Version)
		assert.True(t, strings.HasPrefix(component.PackageURL, "pkg:golang/"+component.Name+"@"), component.PackageURL)
		if component.Name != "std" {
			require.NotNil(t, component.Hashes, component.Name)
			assert.Len(t, (*component.Hashes)[0].Value, 64)
		}
	}
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	want = append(want, "std "+strings.TrimPrefix(info.GoVersion, "go"))
	for _, module := range info.Deps {
		want = append(want, module.Path+" "+module.Version)
	}
	assert.ElementsMatch(t, want, got)
	assert.Contains(t, strings.Join(got, "\n"), "github.com/google/go-containerregistry ")
	assert.Equal(t, "v1.2.3", bom.Metadata.Component.Version)
	assert.Equal(t, "2023-11-14T22:13:20Z", bom.Metadata.Timestamp)

	again, err := os.ReadFile(described(t))
	require.NoError(t, err)
	assert.Equal(t, string(content), string(again), "the same program, the same bill")
}

func TestTheBillIsValidCycloneDX(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	require.NoError(t, err)
	file := func(name string) gojsonschema.JSONLoader {
		return gojsonschema.NewReferenceLoader("file://" + filepath.Join(strings.TrimSpace(string(dir)), "schema", name))
	}
	loader := gojsonschema.NewSchemaLoader()
	for url, name := range map[string]string{"jsf-0.82.schema.json": "jsf-0.82.schemax.json", "spdx.schema.json": "spdx.schema.json"} {
		require.NoError(t, loader.AddSchema("http://cyclonedx.org/schema/"+url, file(name)))
	}
	schema, err := loader.Compile(file("bom-1.6.schema.json"))
	require.NoError(t, err)
	valid := func(content []byte) bool {
		result, err := schema.Validate(gojsonschema.NewBytesLoader(content))
		require.NoError(t, err)
		for _, problem := range result.Errors() {
			t.Log(problem)
		}
		return result.Valid()
	}
	content, err := os.ReadFile(described(t))
	require.NoError(t, err)
	assert.True(t, valid(content))
	assert.False(t, valid([]byte(strings.Replace(string(content), `"type": "library"`, `"type": "book"`, 1))), "the schema does look")
}

func TestAModuleWithoutAChecksumIsAnError(t *testing.T) {
	_, err := sbom(&debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/local", Version: "v0.0.0"}}}, [32]byte{}, tried)
	require.ErrorContains(t, err, "module example.com/local: it has no checksum")
}
