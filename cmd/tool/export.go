package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cmd/tool/archive"
	"nodekeep.dev/nodekeep/cmd/tool/view"
)

func newExportCommand(streams genericiooptions.IOStreams) *cobra.Command {
	connection := newConnection(streams)
	return newCommand(&cobra.Command{
		Use:   "export [FILE] [flags]",
		Short: "Write all records into one file",
		Long: `Export writes all records, with their histories and with what is quarantined, into FILE or, without one or with -, to stdout: for
the day on which a cluster has to be made anew, or to move to another.

The file is a stream of JSON objects, one for each record, in a stable order and indented: the same records make the same file,
and diff shows what has changed. A file is replaced only when all was read. Records that cannot be read are left out and named,
and the exit code is 1 then.`,
		Example: `
			# A backup
			nodekeep export records.json

			# A small one
			nodekeep export | gzip > records.json.gz`,
		GroupID: groupAct,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one file, and was given %d arguments", command.CommandPath(), len(args))
			}
			return nil
		},
	}, connection, func(ctx context.Context, args []string) error {
		c, err := connection.open()
		if err != nil {
			return err
		}
		if len(args) == 0 || args[0] == "-" {
			_, err := c.export(ctx, c.Out)
			return err
		}
		path, regular, err := exportPath(args[0])
		switch {
		case err != nil:
			return usage(err)
		case regular:
			return c.exportTo(ctx, path)
		}
		device, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return usage(err)
		}
		defer func() { _ = device.Close() }()
		_, err = c.export(ctx, device)
		return err
	})
}

// exportPath is the file behind links, and whether it may be replaced: a device or a pipe may not.
func exportPath(path string) (target string, regular bool, err error) {
	target, err = filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return path, true, nil
	}
	if err != nil {
		return "", false, err
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, fmt.Errorf("%s is a folder", path)
	}
	return target, info.Mode().IsRegular(), nil
}

// exportTo replaces a file, once all is written.
func (c *cluster) exportTo(ctx context.Context, path string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return usage(err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // unless it has its name
	}()
	records, partly := c.export(ctx, file)
	if partly != nil && !errors.As(partly, &leftOutError{}) {
		if ctx.Err() != nil {
			return exitError{exitInterrupted, fmt.Errorf("interrupted: %s was not written", path)}
		}
		return fmt.Errorf("%s was not written: %w", path, partly)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("%s was not written: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	if partly == nil {
		_, err = fmt.Fprintf(c.Out, "%s exported to %s\n", view.Counted(records, "record"), path)
		return err
	}
	return partly
}

// export writes every record that can be read, and says how many these are.
func (c *cluster) export(ctx context.Context, to io.Writer) (records int, err error) {
	buffered := bufio.NewWriterSize(to, 1<<16)
	w, err := archive.NewWriter(buffered)
	if err != nil {
		return 0, err
	}
	bar := newProgress(c.ErrOut, unknown, "records written")
	defer bar.end()
	var left []string
	for listed, err := range c.allRecords(ctx) {
		switch {
		case err != nil && w.Records() == 0:
			return 0, err
		case err != nil:
			return w.Records(), cutOff(w.Records(), errors.Join(buffered.Flush(), err))
		case listed.Err != nil:
			left = append(left, "  "+listed.ConfigMap+": "+listed.Err.Error())
			continue
		}
		if err := w.Write(listed.Entry.Record); err != nil {
			return w.Records(), cutOff(w.Records(), err)
		}
		bar.add(1)
	}
	if err := errors.Join(w.Close(), buffered.Flush()); err != nil {
		return w.Records(), cutOff(w.Records(), err)
	}
	if len(left) > 0 {
		return w.Records(), findings(leftOutError{w.Records(), left})
	}
	return w.Records(), nil
}

// cutOff says what an export is worth that was not finished.
func cutOff(records int, err error) error {
	return fmt.Errorf("the export is not complete, and cannot be imported: it ends after %d records: %w", records, err)
}

// leftOutError names the records that could not be read.
type leftOutError struct {
	written int
	left    []string
}

func (e leftOutError) Error() string {
	return fmt.Sprintf("%s exported; %d cannot be read and are not among them:\n%s", view.Counted(e.written, "record"), len(e.left), strings.Join(e.left, "\n"))
}
