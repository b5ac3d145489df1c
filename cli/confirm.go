package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// errNo ends a command whose plan nobody has agreed to.
var errNo = errors.New("nothing was changed: the answer was not yes; --yes says it beforehand")

// confirmation asks before something is changed.
type confirmation struct{ yes bool }

func (c *confirmation) addTo(flags *pflag.FlagSet) {
	flags.BoolVarP(&c.yes, "yes", "y", false, "do it without asking")
}

// ask asks on stderr and reads one line of stdin. Whatever is not "y" or "yes", the end of stdin included, means no, and
// that is errNo.
func (c *confirmation) ask(ctx context.Context, streams genericiooptions.IOStreams, question string) error {
	if c.yes {
		return nil
	}
	if _, err := fmt.Fprintf(streams.ErrOut, "%s [y/N] ", question); err != nil {
		return err
	}
	answers := make(chan string, 1)
	go func() { // whoever waits at a terminal can still press Ctrl-C
		line, _ := bufio.NewReader(streams.In).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return exitError{exitInterrupted, errors.New("\nnothing was changed: interrupted before an answer")}
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return errNo
	}
}
