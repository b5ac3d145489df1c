package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// unknown is the total of a progress whose end nobody knows.
const unknown = -1

// progress shows people how far long work has come.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress begins to show how far work has come, on a terminal only: in a file or a log it would be noise.
func newProgress(w io.Writer, total int64, what string) progress {
	if !isTerminal(w) {
		w = io.Discard
	}
	return progressOn(w, total, what)
}

func progressOn(w io.Writer, total int64, what string) progress {
	return progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// add counts some more as done. What cannot be shown is no error of the work.
func (p progress) add(n int) { _ = p.bar.Add(n) }

// end takes the bar off the screen.
func (p progress) end() { _ = p.bar.Clear() }

func isTerminal(w io.Writer) bool {
	file, is := w.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}
