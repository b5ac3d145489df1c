package verify

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// The greatest numbers that a result may have; a day is longer than any timeout.
const (
	maxMillis = 24 * 60 * 60 * 1000
	maxTries  = 1_000_000
)

// ParseReport reads the termination message of a worker about the checks of its [Task]. The message is untrusted. It must be exactly a report about
// these checks: each once, except those that the worker does not ask. Otherwise it is an error, and the attempt is inconclusive. Messages are cleaned
// for display ([Clean]). The error quotes nothing from the message.
func ParseReport(message string, expected []Check) (Report, error) {
	var report Report
	if message == "" {
		return Report{}, errors.New("read report: it is empty")
	}
	if err := readJSON(message, ReportLimit(expected), "a report", &report); err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	if err := report.about(expected, len(message)); err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	for i := range report.Results {
		report.Results[i].Message = Clean(report.Results[i].Message)
	}
	slices.SortStableFunc(report.Results, func(a, b Result) int { return a.rank() - b.rank() })
	return report, nil
}

// about compares a report of this length in bytes with the checks that it must be about.
func (r *Report) about(expected []Check, length int) error {
	missing := map[string]*Check{}
	for i := range expected {
		if expected[i].ByWorker() {
			missing[expected[i].Name] = &expected[i]
		}
	}
	for i := range r.Results {
		result := &r.Results[i]
		check, ok := missing[result.Check]
		if !ok {
			return fmt.Errorf("result %d is about an unknown check, or a second one about the same", i+1)
		}
		delete(missing, result.Check)
		if err := result.plausible(check); err != nil {
			return fmt.Errorf("result of check %q: %w", check.Name, err)
		}
	}
	if r.Omitted != len(missing) {
		return fmt.Errorf("%d results are missing and %d are said to be omitted", len(missing), r.Omitted)
	}
	if r.Omitted > 0 && length < ReportLimit(expected)/2 {
		return errors.New("results are omitted although there is room for them")
	}
	return nil
}

// plausible checks a result by itself.
func (r *Result) plausible(check *Check) error {
	switch {
	case r.Outcome != Passed && r.Outcome != Failed && r.Outcome != Skipped:
		return errors.New("unknown outcome")
	case r.Required != check.IsRequired():
		return errors.New("it must be required in the report if and only if it is in the policy")
	case r.Outcome == Passed && r.Reason != "":
		return errors.New("it passed and has a reason")
	case r.Outcome != Passed && !r.Reason.isWord():
		return errors.New("the reason is not a word")
	case strings.ContainsFunc(r.Message, unicode.IsControl):
		return errors.New("the message has control characters")
	case r.Millis < 0 || r.Millis > maxMillis:
		return errors.New("the time is out of range")
	case r.Tries < 0 || r.Tries > maxTries:
		return errors.New("the number of tries is out of range")
	}
	return nil
}

// isWord reports whether a reason is a word as Kubernetes has them: letters and digits, a capital first.
func (r Reason) isWord() bool { return word.MatchString(string(r)) }

var word = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,39}$`)

// readJSON reads JSON that is untrusted: not too long, in UTF-8, and with known fields only. An error quotes nothing from it.
func readJSON(text string, limit int, name string, target any) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("%d bytes, more than %d", len(text), limit)
	case !utf8.ValidString(text):
		return errors.New("not UTF-8")
	}
	strict, err := kjson.UnmarshalStrict([]byte(text), target)
	switch {
	case err != nil:
		return fmt.Errorf("not %s in JSON", name)
	case len(strict) > 0:
		return errors.New("unknown or repeated fields")
	}
	return nil
}
