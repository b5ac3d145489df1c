package harness

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pidsFile lists the processes of a detached cluster in order of start. Each line is "name pid start", where start is the startTime of the process.
const pidsFile = "pids"

type entry struct {
	name  string
	pid   int
	start string
}

func readPIDs(dir string) ([]entry, error) {
	file, err := os.Open(filepath.Join(dir, pidsFile))
	if err != nil {
		return nil, fmt.Errorf("read pid file: %w", err)
	}
	defer file.Close()
	var entries []entry
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e entry
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %s", &e.name, &e.pid, &e.start); err != nil {
			return nil, fmt.Errorf("read pid file, line %q: %w", lines.Text(), err)
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read pid file: %w", err)
	}
	return entries, nil
}

// recordPID notes a process in the pid file. It replaces an entry of the same name in its place, to keep the order of the first start.
func recordPID(dir string, p *Process) error {
	start, err := startTime(p.Pid())
	if err != nil {
		return err
	}
	entries, err := readPIDs(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	e := entry{name: p.Name(), pid: p.Pid(), start: start}
	if i := slices.IndexFunc(entries, func(old entry) bool { return old.name == e.name }); i >= 0 {
		entries[i] = e
	} else {
		entries = append(entries, e)
	}
	var text strings.Builder
	for _, e := range entries {
		fmt.Fprintln(&text, e.name, e.pid, e.start)
	}
	return writeFile(filepath.Join(dir, pidsFile), []byte(text.String()))
}

// recorded reports whether the process that the pid file has by this name is running.
func recorded(dir, name string) bool {
	entries, _ := readPIDs(dir)
	return slices.ContainsFunc(entries, func(e entry) bool { return e.name == name && e.running() })
}

// running reports whether the very process that was recorded is still there.
func (e entry) running() bool {
	start, err := startTime(e.pid)
	return err == nil && start == e.start
}
