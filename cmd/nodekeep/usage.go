package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError holds every error that kept a process from starting.
type usageError struct{ mistakes []error }

func (e usageError) Error() string {
	lines := []string{fmt.Sprintf("nodekeep cannot start; %d error(s):", len(e.mistakes))}
	for _, mistake := range e.mistakes {
		lines = append(lines, "  "+strings.ReplaceAll(mistake.Error(), "\n", "\n    "))
	}
	return strings.Join(lines, "\n")
}

// runError is what ended a process that had started.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{[]error{fmt.Errorf("unexpected argument %q: everything is set by flags", args[0])}}
	}
	return nil
}

// everyFlagError continues parsing after the first error, where the flag library stops. So all errors are named at once, those in values and files
// included.
func everyFlagError(o *commonOptions, mistakesInValues func() []error) func(*cobra.Command, error) error {
	return func(command *cobra.Command, first error) error {
		if errors.Is(first, pflag.ErrHelp) {
			return first
		}
		found := []error{first}
		args := os.Args[1:]
		for err := first; err != nil; {
			args = withoutMissing(args, err)
			if args == nil {
				break
			}
			if err = command.Flags().Parse(args); err != nil {
				found = append(found, err)
			}
		}
		errs := mistakesInValues()
		if _, err := restConfig(o); err != nil {
			errs = append(errs, err)
		}
		return usageError{append(found, slices.DeleteFunc(errs, alreadyIn(found))...)}
	}
}

// alreadyIn finds errors in the value of a flag that could not be parsed in the first place.
func alreadyIn(found []error) func(error) bool {
	return func(mistake error) bool {
		return slices.ContainsFunc(found, func(err error) bool {
			var invalid *pflag.InvalidValueError
			return errors.As(err, &invalid) && strings.HasPrefix(mistake.Error(), "--"+invalid.GetFlag().Name+" ")
		})
	}
}

// withoutMissing returns the arguments less the one that the error is about; nil where it cannot be found.
func withoutMissing(args []string, err error) []string {
	var (
		unknown *pflag.NotExistError
		invalid *pflag.InvalidValueError
		lacking *pflag.ValueRequiredError
		name    string
		pair    bool // the value may stand in an argument of its own
	)
	switch {
	case errors.As(err, &unknown):
		name = unknown.GetSpecifiedName()
	case errors.As(err, &invalid):
		name, pair = invalid.GetFlag().Name, true
	case errors.As(err, &lacking):
		name = lacking.GetSpecifiedName()
	default:
		return nil
	}
	for i, arg := range args {
		flag, _, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || flag != name {
			continue
		}
		end := i + 1
		if pair && !hasValue && end < len(args) {
			end++
		}
		return slices.Delete(slices.Clone(args), i, end)
	}
	return nil
}
