package report

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// counted is what is counted here from what kubectl prints, by code that shares nothing with the product.
type counted struct {
	nodes    int
	labels   map[string]map[string]int
	capacity map[string]map[string]float64 // by tier and resource
	wrong    map[string]map[string]bool    // Nodes, by key and kind
}

func countIndependently(t *testing.T, file string) counted {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Status struct{ Capacity map[string]string }
		}
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &list))
	c := counted{len(list.Items), map[string]map[string]int{}, map[string]map[string]float64{}, map[string]map[string]bool{}}
	wrong := func(node, key, kind string) {
		if c.wrong[key+" "+kind] == nil {
			c.wrong[key+" "+kind] = map[string]bool{}
		}
		c.wrong[key+" "+kind][node] = true
	}
	for _, node := range list.Items {
		for key, value := range node.Metadata.Labels {
			if c.labels[key] == nil {
				c.labels[key] = map[string]int{}
			}
			c.labels[key][value]++
		}
		kind, ok := node.Metadata.Labels[tier]
		if !ok {
			kind = "(no label)"
		}
		if c.capacity[kind] == nil {
			c.capacity[kind] = map[string]float64{}
		}
		for name, amount := range node.Status.Capacity {
			c.capacity[kind][name] += amountIn(t, amount)
		}
		switch value := node.Metadata.Labels[tier]; {
		case !ok:
			wrong(node.Metadata.Name, tier, "required")
		case value != "standard" && value != "gpu" && value != "high-performance":
			wrong(node.Metadata.Name, tier, "value")
		}
		if rack, ok := node.Metadata.Labels["rack"]; !ok {
			wrong(node.Metadata.Name, "rack", "required")
		} else if number, err := strconv.Atoi(strings.TrimPrefix(rack, "r")); err != nil || number < 0 || rack[0] != 'r' {
			wrong(node.Metadata.Name, "rack", "pattern")
		}
		if _, ok := node.Metadata.Labels["team.owner"]; !ok {
			wrong(node.Metadata.Name, "team.owner", "required")
		}
	}
	return c
}

// amountIn reads the few forms of a quantity that these Nodes have.
func amountIn(t *testing.T, text string) float64 {
	t.Helper()
	factor := 1.0
	for unit, by := range map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1e3, "M": 1e6, "m": 1e-3} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, factor = number, by
			break
		}
	}
	number, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return number * factor
}

// measured runs nodekeep and returns what it printed, how long it took, and how much memory.
func measured(t *testing.T, args ...string) (out []byte, took time.Duration, peak int64) {
	t.Helper()
	command := exec.CommandContext(t.Context(), nodekeep.Binary(), args...)
	command.Env = nodekeep.Environment("")
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	var errOut strings.Builder
	command.Stdout, command.Stderr = file, &errOut
	began := time.Now()
	require.NoError(t, command.Start())
	ended := make(chan int64)
	stop := make(chan struct{})
	go func() { ended <- highWater(command.Process.Pid, stop) }()
	err = command.Wait()
	took = time.Since(began)
	close(stop)
	peak = <-ended
	require.NoError(t, err, errOut.String())
	require.Empty(t, errOut.String())
	require.Positive(t, peak)
	out, err = os.ReadFile(file.Name())
	require.NoError(t, err)
	return out, took, peak
}

// highWater returns the most memory that a process has had, read until stop is closed. rusage would not do: Linux counts what its parent had at
// the fork, too.
func highWater(pid int, stop <-chan struct{}) (bytes int64) {
	line := regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if found := line.FindSubmatch(status); err == nil && found != nil {
			kib, _ := strconv.ParseInt(string(found[1]), 10, 64)
			bytes = max(bytes, kib<<10)
		}
		select {
		case <-stop:
			return bytes
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// With NODEKEEP_REPORT_NODES=10000 it also holds the report to what it may take: 10 s and 200 MiB.
func TestTheCountsAreThoseOfKubectl(t *testing.T) {
	policyFile := populate(t)
	file := filepath.Join(t.TempDir(), "nodes.json")
	kubectl := exec.CommandContext(t.Context(), "sh", "-c", harness.Binary("kubectl")+" get nodes -o json > "+file)
	kubectl.Env = nodekeep.Environment("")
	require.NoError(t, kubectl.Run())
	want := countIndependently(t, file)
	require.Equal(t, want.nodes, howMany(t))

	for _, format := range []string{"json", "html", "csv", "table"} {
		_, took, peak := measured(t, "report", "--policy", policyFile, "--tier", tier, "-o", format)
		t.Logf("the whole report of %d Nodes as %s: %.1f s, %d MiB", want.nodes, format, took.Seconds(), peak>>20)
		if want.nodes >= 10_000 {
			assert.Less(t, peak>>20, int64(200), "MiB")
			assert.Less(t, took, 10*time.Second)
		}
	}
	out, _, _ := measured(t, "report", "--policy", policyFile, "--tier", tier, "-o", "json")
	var got struct {
		APIVersion, Kind string
		Nodes            int
		Summary          struct {
			Labels []struct {
				Key           string
				Nodes, Values int
				Counts        []struct {
					Value string
					Nodes int
				}
			}
			Tiers []struct {
				Value    string
				Nodes    int
				Capacity map[string]string
			}
		}
		Compliance struct {
			CompliantNodes, ViolatingNodes int
			Rules                          []struct {
				Rule, Kind string
				Nodes      int
			}
			Violations []struct{ Node, Key, Kind string }
		}
		Usage struct {
			Keys []struct {
				Key       string
				SeenInUse bool
				Nodes     int
			}
		}
		Cost struct {
			Values []struct {
				Value                string
				Nodes                int
				NodeHours, CoreHours float64
			}
		}
	}
	require.NoError(t, json.Unmarshal(out, &got))
	assert.Equal(t, "nodekeep.dev/v1alpha1 Report", got.APIVersion+" "+got.Kind)
	assert.Equal(t, want.nodes, got.Nodes)

	labels := map[string]map[string]int{}
	for _, label := range got.Summary.Labels {
		labels[label.Key] = map[string]int{}
		nodes := 0
		for _, count := range label.Counts {
			labels[label.Key][count.Value] = count.Nodes
			nodes += count.Nodes
		}
		assert.Equal(t, nodes, label.Nodes)
		assert.Len(t, label.Counts, label.Values)
	}
	assert.Equal(t, want.labels, labels)

	capacity := map[string]map[string]float64{}
	for _, row := range got.Summary.Tiers {
		capacity[row.Value] = map[string]float64{}
		for name, amount := range row.Capacity {
			capacity[row.Value][name] = amountIn(t, amount)
		}
	}
	assert.Equal(t, want.capacity, capacity)

	broken, violating := map[string]int{}, map[string]bool{}
	for _, rule := range got.Compliance.Rules {
		broken[rule.Rule+" "+rule.Kind] = rule.Nodes
	}
	wrong := map[string]int{}
	for rule, nodes := range want.wrong {
		wrong[rule] = len(nodes)
		for node := range nodes {
			violating[node] = true
		}
	}
	assert.Equal(t, wrong, broken)
	assert.Equal(t, len(violating), got.Compliance.ViolatingNodes)
	assert.Equal(t, want.nodes-len(violating), got.Compliance.CompliantNodes)
	for _, violation := range got.Compliance.Violations {
		assert.True(t, want.wrong[violation.Key+" "+violation.Kind][violation.Node], violation)
	}

	var used, notSeen []string
	for _, key := range got.Usage.Keys {
		if key.SeenInUse {
			used = append(used, key.Key)
		} else {
			notSeen = append(notSeen, key.Key)
		}
		nodes := 0
		for _, n := range want.labels[key.Key] {
			nodes += n
		}
		assert.Equal(t, nodes, key.Nodes, key.Key)
	}
	assert.Subset(t, used, []string{tier, "rack"})
	assert.Contains(t, notSeen, "team.owner")
	for _, row := range got.Cost.Values {
		assert.Equal(t, labels[tier][row.Value] > 0, row.Value != "(no label)")
		assert.GreaterOrEqual(t, row.CoreHours+1, 8*row.NodeHours-1, "every Node has 8 cores at least")
		assert.LessOrEqual(t, row.NodeHours, float64(row.Nodes), "no Node is an hour old")
	}
}
