package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"

	"sigs.k8s.io/yaml"
)

// Files that are generated, or have a part that is.
const (
	crdFile    = "manifests/chart/crd.yaml"
	valuesFile = "manifests/chart/values.schema.json"
	pageFile   = "docs/verification.md"
	chartFile  = "manifests/chart/README.md"
)

// defaultsFile has the defaults of the chart's values, and what each value is for.
const defaultsFile = "manifests/chart/values.yaml"

func main() {
	check := flag.Bool("check", false, "only compare the files with what would be written")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run generates all files, in the root of the repository.
func run(check bool) error {
	crd, err := controllerGen()
	if err != nil {
		return err
	}
	files, err := generated(crd, os.ReadFile)
	if err != nil {
		return err
	}
	for _, file := range []string{crdFile, valuesFile, pageFile, chartFile} {
		content, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		switch {
		case bytes.Equal(content, files[file]):
		case check:
			return fmt.Errorf("%s is not what the code says; run make manifests", file)
		default:
			if err := os.WriteFile(file, files[file], 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// controllerGen returns the CustomResourceDefinition that controller-gen makes of the types.
func controllerGen() ([]byte, error) {
	command := exec.Command("go", "tool", "controller-gen", "crd", "paths=./api/...", "output:crd:stdout")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("run controller-gen: %w", err)
	}
	return oneKind(out)
}

// generated returns all files with what follows from a CustomResourceDefinition. The function read reads a file as it is.
func generated(crd []byte, read func(name string) ([]byte, error)) (map[string][]byte, error) {
	crd = bytes.TrimLeft(bytes.TrimPrefix(crd, []byte("---\n")), "\n")
	spec, err := specOf(crd)
	if err != nil {
		return nil, err
	}
	withNulls, err := nullable(crd)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		crdFile: append([]byte("# Generated from package policy by `make manifests`.\n"), withNulls...),
	}
	page, err := read(pageFile)
	if err != nil {
		return nil, err
	}
	if page, err = withTable(page, "kinds", kinds()); err == nil {
		page, err = withTable(page, "causes", causes())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pageFile, err)
	}
	files[pageFile] = page
	if files[chartFile], err = chartPage(read); err != nil {
		return nil, err
	}
	values, err := read(valuesFile)
	if err != nil {
		return nil, err
	}
	if files[valuesFile], err = withPolicy(values, draft07(allowNull(spec, true))); err != nil {
		return nil, fmt.Errorf("%s: %w", valuesFile, err)
	}
	return files, nil
}

// chartPage returns the page of the chart with the table of its values.
func chartPage(read func(name string) ([]byte, error)) ([]byte, error) {
	defaults, err := read(defaultsFile)
	if err != nil {
		return nil, err
	}
	table, err := chartValues(defaults)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", defaultsFile, err)
	}
	page, err := read(chartFile)
	if err != nil {
		return nil, err
	}
	if page, err = withTable(page, "values", table); err != nil {
		return nil, fmt.Errorf("%s: %w", chartFile, err)
	}
	return page, nil
}

// schema is an OpenAPI schema, as a CustomResourceDefinition has it.
type schema = map[string]any

// specOf returns the schema of the field spec.
func specOf(crd []byte) (schema, error) {
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct{ Properties map[string]schema }
				}
			}
		}
	}
	if err := yaml.Unmarshal(crd, &definition); err != nil {
		return nil, fmt.Errorf("read what controller-gen made: %w", err)
	}
	if len(definition.Spec.Versions) != 1 {
		return nil, fmt.Errorf("controller-gen made %d versions, and one is expected", len(definition.Spec.Versions))
	}
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], nil
}
