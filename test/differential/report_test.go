package differential

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// How much a failure prints; the file with the events has everything.
const (
	maxStories  = 3
	maxLogLines = 30
)

// report fails the test with the events of every Node that is not as it should be.
func (w *world) report(t *testing.T, wrong map[string]string, last picture) {
	t.Helper()
	var all strings.Builder
	stories := 0
	for _, s := range w.subjects {
		complaint, ok := wrong[s.name]
		if !ok {
			continue
		}
		text := s.tellAll(complaint, last) + w.logLines(s.name)
		all.WriteString(text)
		if stories++; stories <= maxStories {
			t.Error(text)
		}
	}
	file := filepath.Join(w.nodekeep.Cluster.Dir(), "events.txt")
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		t.Error(err)
	}
	t.Errorf("%d Nodes are not as the operator wanted them, or not at rest; all their events are in %s: %v", len(wrong), file, slices.Sorted(maps.Keys(wrong)))
}

func (s *subject) tellAll(complaint string, last picture) string {
	var text strings.Builder
	fmt.Fprintf(&text, "node %s: %s\n", s.name, complaint)
	for _, line := range s.story {
		fmt.Fprintf(&text, "  %s\n", line)
	}
	for _, key := range allKeys() {
		fmt.Fprintf(&text, "wanted %s: %q\n", key, s.wanted.labels[key].right)
	}
	if node, exists := last.nodes[s.name]; exists {
		fmt.Fprintf(&text, "Node: uid %s version %s, labels %v, annotations %v, taints %v\n", node.UID, node.ResourceVersion, node.Labels, node.Annotations, node.Spec.Taints)
		for _, entry := range node.ManagedFields {
			fmt.Fprintf(&text, "  %s (%s): %s\n", entry.Manager, entry.Operation, entry.FieldsV1.GetRawBytes())
		}
	}
	fmt.Fprintf(&text, "record: %s\n", last.records[s.name].text)
	return text.String()
}

// logLines returns the last lines of nodekeep's logs that name the Node.
func (w *world) logLines(name string) string {
	var lines []string
	for _, process := range []string{"nodekeep-webhook", "nodekeep-capture"} {
		file, err := os.Open(w.nodekeep.Cluster.LogPath(process))
		if err != nil {
			continue
		}
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
			if strings.Contains(scanner.Text(), name) {
				lines = append(lines, process+": "+scanner.Text())
			}
		}
		file.Close()
	}
	return strings.Join(lines[max(0, len(lines)-maxLogLines):], "\n") + "\n"
}

// operations counts what a script does, by kind.
func (s script) operations() (kinds map[kind]int, total int) {
	kinds = map[kind]int{}
	for _, round := range s {
		for _, part := range round {
			for _, operations := range part.operations {
				for _, op := range operations {
					kinds[op.kind]++
					total++
				}
			}
		}
	}
	return kinds, total
}
