package integration

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// The shipped policy keeps records for 720h.
const (
	month       = 721 * time.Hour
	almostMonth = 719 * time.Hour
	year        = 365 * 24 * time.Hour
)

// sweeping does something while capture sweeps every second.
func sweeping(t *testing.T, args []string, fn func()) {
	t.Helper()
	nodekeep.WithoutCapture(t, func() { nodekeep.CaptureArgs = append([]string{"--retention-sweep=1s"}, args...) })
	defer nodekeep.WithoutCapture(t, func() { nodekeep.CaptureArgs = nil })
	fn()
}

// goneNode registers, labels and deletes a Node, and waits until its record says that it is deleted.
func goneNode(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	nodekeep.RegisterRecorded(t, name, labels)
	nodekeep.DeleteNode(t, name)
	nodekeep.WaitDeletionRecorded(t, name)
}

// sweeps returns the lines that captures have logged of their sweeps so far.
func sweeps(t *testing.T) (lines []string) {
	t.Helper()
	log, err := os.ReadFile(nodekeep.Cluster.LogPath("nodekeep-capture"))
	require.NoError(t, err)
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, `msg="records swept"`) && strings.HasSuffix(line, "\n") { // capture may be writing the last one
			lines = append(lines, line)
		}
	}
	return lines
}

// countIn returns a number of a line of the log.
func countIn(t *testing.T, line, key string) int {
	t.Helper()
	found := regexp.MustCompile(` ` + key + `=(\d+)`).FindStringSubmatch(line)
	require.NotNil(t, found, line)
	count, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return count
}

// severalSweeps waits until capture has swept twice more: the second sweep began after this call.
func severalSweeps(t *testing.T) {
	t.Helper()
	index := len(sweeps(t))
	harness.Eventually(t, func() bool { return len(sweeps(t)) >= index+2 }, settles, 50*time.Millisecond)
}

func TestRecordsAreCollectedOnceTheirNodesHaveBeenGoneForTheRetention(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	goneNode(t, "retained-gone", want)
	goneNode(t, "retained-younger", want)
	goneNode(t, "retained-back", want)
	goneNode(t, "retained-ahead", want)
	nodekeep.RegisterRecorded(t, "retained-live", want)
	goneNode(t, "retained-nothing", map[string]string{"only": "1"})
	nodekeep.Register(t, "retained-nothing")
	nodekeep.Label(t, "retained-nothing", map[string]any{"only": nil})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, "retained-nothing"), nil)

	for name, long := range map[string]time.Duration{
		"retained-gone": month, "retained-younger": almostMonth, "retained-ahead": -month, "retained-back": almostMonth,
	} {
		nodekeep.AgeRecord(t, name, long)
	}
	sweeping(t, []string{"--retention-fraction=1"}, func() {
		nodekeep.WaitNoRecord(t, "retained-gone")
		nodekeep.AgeRecord(t, "retained-live", month) // a client writes so, and the Node lives
		severalSweeps(t)
		for _, name := range []string{"retained-younger", "retained-ahead", "retained-back", "retained-live"} {
			recordHolds(t, name, want)
		}
		assert.NotNil(t, nodekeep.RecordMap(t, "retained-nothing"), "it holds nothing, and its Node lives")
		nodekeep.DeleteNode(t, "retained-nothing")
		nodekeep.WaitDeletionRecorded(t, "retained-nothing")
		severalSweeps(t)
		assert.NotNil(t, nodekeep.RecordMap(t, "retained-nothing"), "a process may not know it yet")
		nodekeep.AgeRecord(t, "retained-nothing", 3*time.Minute)
		nodekeep.WaitNoRecord(t, "retained-nothing")

		nodekeep.Register(t, "retained-back")
		node := nodekeep.WaitRestored(t, "retained-back", want)
		nodekeep.WaitRecorded(t, node, want)
		bare := nodekeep.Register(t, "retained-gone")
		assert.NotContains(t, bare.Labels, "dedicated", "it is forgotten")
		nodekeep.Register(t, "retained-younger")
		nodekeep.WaitRestored(t, "retained-younger", want)
	})
}

func TestANodeThatWentWhileBothWereDownIsMarkedAsGoneAndItsRecordCollected(t *testing.T) {
	const name = "retained-down"
	nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci"})
	nodekeep.WithoutBoth(t, func() {
		nodekeep.DeleteNode(t, name)
		require.Zero(t, nodekeep.MustRecord(t, name).DeletedAt, "nobody has seen it go")
	})
	assert.WithinDuration(t, time.Now(), nodekeep.WaitDeletionRecorded(t, name).DeletedAt, time.Minute)
	nodekeep.AgeRecord(t, name, month)
	sweeping(t, []string{"--retention-fraction=1"}, func() { nodekeep.WaitNoRecord(t, name) })
}

func TestASweepCollectsNoMoreThanItsFractionOfAllRecords(t *testing.T) {
	const count = 25
	names := harness.Names("retained-many", count)
	nodekeep.WithoutCapture(t, func() {
		// Records of Nodes that went long ago, as they stand after a year without anybody's collecting them.
		eachNode(names, func(name string) {
			long := record.New(name, record.Object{UID: "once", Version: 1}, map[string]string{"dedicated": "ci"})
			long.DeletedAt = time.Now().Add(-year)
			createRecord(t, long)
		})
	})
	index := len(sweeps(t))
	sweeping(t, nil, func() {
		for _, name := range names {
			nodekeep.WaitNoRecord(t, name)
		}
		severalSweeps(t) // a sweep says what it did once it is over
	})
	removed, limit := 0, 0
	swept := sweeps(t)[index:]
	t.Logf("%d records were collected in %d sweeps", count, len(swept))
	for _, line := range swept {
		records, now := countIn(t, line, "records"), countIn(t, line, "removed")
		assert.LessOrEqual(t, now, max(1, records/10), line)
		removed, limit = removed+now, max(limit, now)
	}
	assert.GreaterOrEqual(t, removed, count)
	assert.Greater(t, limit, 1, "a tenth of all was more than one")
}

func TestADryRunCollectsNothing(t *testing.T) {
	const name = "retained-dry-run"
	goneNode(t, name, map[string]string{"dedicated": "ci"})
	nodekeep.AgeRecord(t, name, month)
	sweeping(t, []string{"--retention-fraction=0"}, func() {
		version := nodekeep.RecordMap(t, name).ResourceVersion
		severalSweeps(t)
		assert.Equal(t, version, nodekeep.RecordMap(t, name).ResourceVersion, "it is as it was")
		assert.Positive(t, metric(t, "capture", `nodekeep_capture_records_collected_total{outcome="dry_run"}`))
		assert.Zero(t, metric(t, "capture", `nodekeep_capture_records_collected_total{outcome="collected"}`))
		assert.Positive(t, metric(t, "capture", `nodekeep_capture_records{state="due"}`))
		log, err := os.ReadFile(nodekeep.Cluster.LogPath("nodekeep-capture"))
		require.NoError(t, err)
		assert.Contains(t, string(log), `msg="record would be removed" node=`+name)
	})
	sweeping(t, []string{"--retention-fraction=1"}, func() { nodekeep.WaitNoRecord(t, name) })
}
