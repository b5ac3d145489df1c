package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOMs writes a bill of materials for each platform.
func writeSBOMs(in places, about release, said io.Writer) error {
	for _, platform := range in.platforms {
		file := in.made(platform, ".cdx.json")
		if err := writeSBOM(in.binary(platform), file, about); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(said, file); err != nil {
			return err
		}
	}
	return nil
}

// writeSBOM writes what a binary is made of, as the Go linker noted it: every module, its version and checksum, and the standard
// library.
func writeSBOM(binary, out string, about release) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read what %s is made of: %w", binary, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read %s: %w", binary, err)
	}
	bom, err := sbom(info, sha256.Sum256(content), about)
	if err != nil {
		return fmt.Errorf("describe %s: %w", binary, err)
	}
	var encoded bytes.Buffer
	encoder := cdx.NewBOMEncoder(&encoded, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	encoder.SetEscapeHTML(false)
	if err := encoder.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return fmt.Errorf("encode the bill of materials: %w", err)
	}
	return os.WriteFile(out, encoded.Bytes(), 0o644)
}

func sbom(info *debug.BuildInfo, digest [sha256.Size]byte, about release) (*cdx.BOM, error) {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	main := cdx.Component{
		BOMRef:   purl(info.Main.Path, about.version, settings),
		Type:     cdx.ComponentTypeApplication,
		Name:     info.Main.Path,
		Version:  about.version,
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &[]cdx.Property{
			{Name: "nodekeep:commit", Value: about.commit},
			{Name: "nodekeep:platform", Value: settings["GOOS"] + "/" + settings["GOARCH"]},
		},
	}
	main.PackageURL = main.BOMRef
	parts := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dependency := range info.Deps {
		used := dependency
		if dependency.Replace != nil {
			used = dependency.Replace
		}
		part := module(used.Path, used.Version)
		sum, err := checksum(used.Sum)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", used.Path, err)
		}
		part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	refs := make([]string, 0, len(parts))
	for _, part := range parts {
		refs = append(refs, part.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: about.time().Format(time.RFC3339),
		Component: &main,
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom, nil
}

func module(path, version string) cdx.Component {
	ref := purl(path, version, nil)
	return cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: ref, Scope: cdx.ScopeRequired}
}

// purl is the package URL of a Go module: by it, scanners look for what is known of it.
func purl(path, version string, settings map[string]string) string {
	ref := "pkg:golang/" + path + "@" + url.PathEscape(version)
	if settings["GOOS"] != "" {
		ref += "?goarch=" + settings["GOARCH"] + "&goos=" + settings["GOOS"] + "&type=module"
	}
	return ref
}

// checksum turns what go.sum has of a module ("h1:" and base64 of a SHA-256) into hexadecimal.
func checksum(sum string) (string, error) {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return "", errors.New("it has no checksum of the kind h1: it is not built from a module cache")
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("read its checksum: %w", err)
	}
	return hex.EncodeToString(raw), nil
}
