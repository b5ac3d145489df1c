package main

import (
	"io"
	"regexp"
)

// labels stands for the parts of labels.go, which need the product's capture, and with it all of client-go.
func (s settings) labels(*regexp.Regexp, io.Writer) (ok bool, states, checks int64, err error) {
	return true, 0, 0, nil
}

func replayLabels(string, io.Writer) (ok, found bool, err error) { return false, false, nil }
