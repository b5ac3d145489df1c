package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"nodekeep.dev/nodekeep/cmd/tool/archive"
	"nodekeep.dev/nodekeep/store"
)

// importFile is a file whose records were all checked and can be read again, one by one. Of each only its name and place are
// held.
type importFile struct {
	file    *os.File
	spooled bool
	places  []archive.Place
	byNode  map[string]int
}

// openImport opens a file, or stdin where the name is "-"; what cannot be read twice is copied to a temporary file first.
func openImport(name string, stdin io.Reader) (*importFile, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usage(err)
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return &importFile{file: file}, nil
		}
		defer func() { _ = file.Close() }()
		stdin = file
	}
	file, err := os.CreateTemp("", "nodekeep-import-*")
	if err != nil {
		return nil, err
	}
	f := &importFile{file: file, spooled: true}
	if _, err := io.Copy(file, stdin); err != nil {
		f.close()
		return nil, usage(fmt.Errorf("read %s: %w", name, err))
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *importFile) close() {
	_ = f.file.Close()
	if f.spooled {
		_ = os.Remove(f.file.Name())
	}
}

// mistakesShown is how many mistakes of a file are told at most.
const mistakesShown = 100

// check reads the whole file. The error tells all mistakes in it, up to a number.
func (f *importFile) check(ctx context.Context, name string, progressTo io.Writer) error {
	var size int64 = unknown
	if info, err := f.file.Stat(); err == nil {
		size = info.Size()
	}
	bar := newProgress(progressTo, size, "checking the file")
	defer bar.end()
	f.byNode = map[string]int{}
	var mistakes []string
	found := 0
	for entry, err := range archive.Read(countingReader{bufio.NewReaderSize(f.file, 1<<16), bar}) {
		if ctx.Err() != nil {
			return exitError{exitInterrupted, errors.New("nothing was imported: interrupted while the file was read")}
		}
		if err != nil {
			if !errors.As(err, &archive.Mistake{}) {
				return usage(fmt.Errorf("read %s: %w", name, err))
			}
			if found++; found <= mistakesShown {
				mistakes = append(mistakes, "  "+err.Error())
			}
			continue
		}
		f.byNode[entry.Node] = len(f.places)
		f.places = append(f.places, entry.Place)
	}
	if found == 0 {
		return nil
	}
	if more := found - len(mistakes); more > 0 {
		mistakes = append(mistakes, fmt.Sprintf("  and %d more", more))
	}
	return usage(fmt.Errorf("nothing was imported: %d mistake(s) in %s:\n%s", found, name, strings.Join(mistakes, "\n")))
}

// record reads one of the records again.
func (f *importFile) record(i int) (store.Record, error) { return archive.ReadAt(f.file, f.places[i]) }

type countingReader struct {
	io.Reader
	bar progress
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.bar.add(n)
	return n, err
}
