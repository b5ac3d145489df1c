package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/install"
)

// loseEverything deletes all Nodes and then all records, as if the cluster had been made anew.
func loseEverything(t *testing.T) {
	t.Helper()
	kubectl(t, "delete", "nodes", "--all")
	withoutCapture(t, func() {
		require.Eventually(t, func() bool { // kubectl takes its time, and of very many the API server deletes some at a call
			_ = nodekeep.Admin.CoreV1().ConfigMaps(install.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: store.RecordLabel})
			found, _, err := records(t).List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil && len(found) == 0
		}, 10*settles, settles/1000)
	})
}

// export writes all records into a file, and returns its path and what is in it.
func export(t *testing.T) (path, content string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "records.json")
	assert.Regexp(t, `^\d+ records? exported to `+regexp.QuoteMeta(path)+"\n$", run(t, "export", path).requireDone(t).out)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	return path, string(written)
}

func TestAClusterThatIsLostComesBackFromItsExport(t *testing.T) {
	loseEverything(t) // what other tests have left
	want := map[string]map[string]string{}
	for n := range 12 {
		name := fmt.Sprintf("recovery-%02d", n)
		want[name] = map[string]string{"dedicated": "ci", "rack": fmt.Sprintf("r%d", n%3), worker: ""}
		register(t, name)
		edit(t, name, want[name], "tenant=blue:NoSchedule")
		if n%4 == 0 {
			remove(t, name)
		}
	}
	long := strings.Repeat(strings.Repeat("n", 49)+".", 5) + "end" // its name is shortened in that of its ConfigMap
	goneFor(t, long, year)
	want[long] = map[string]string{"dedicated": "ci"}
	quarantined(t, "recovery-undecided")

	path, content := export(t)
	_, again := export(t)
	assert.Equal(t, content, again, "the same records make the same bytes")
	assert.Equal(t, content, run(t, "export").requireDone(t).out)

	loseEverything(t)
	a := answering(t, "y\n", "import", path)
	require.Equal(t, 0, a.code, a.errOut)
	assert.Equal(t, "14 records imported (14 created, 0 replaced, 0 given to live Nodes); 0 the same already\n", a.out)
	requireGolden(t, "import", a.errOut)
	assert.Equal(t, "0 records imported (0 created, 0 replaced, 0 given to live Nodes); 14 the same already\n", run(t, "import", path).requireDone(t).out)

	_, after := export(t)
	assert.Equal(t, portable(content), portable(after), "what is imported is what was exported, but for what is of an object")
	for name, labels := range want {
		registerWith(t, name, nil)
		require.Eventually(t, func() bool {
			have := labelsOf(t, name)
			for key, value := range labels {
				if got, is := have[key]; !is || got != value {
					return false
				}
			}
			return !gateOn(t, name)
		}, settles, settles/1000, "%s must have back %v", name, labels)
		assert.Contains(t, kubectl(t, "get", "node", name, "-o", "jsonpath={.spec.taints[*].key}"), "tenant")
		eventually(t, name, func(r store.Record) bool { return r.DeletedAt == nil && r.UID != "" })
	}
	old := recordOf(t, "recovery-undecided").Quarantined
	require.NotNil(t, old)
	assert.Equal(t, "aaaa", old.Machine.SystemUUID)

	a = run(t, "import", path)
	assert.Equal(t, 0, a.code, "everything in the file is on the live Nodes: %s", a.errOut)
	assert.Contains(t, a.out, "14 the same already")
}

// portable leaves out of an export what is of an object of one cluster.
func portable(content string) string {
	ofOneCluster := regexp.MustCompile(`(?m)^ +"(uid|nodeResourceVersion|deletedAt)": "[^"]*",?\n`)
	return regexp.MustCompile(`,(\s*})`).ReplaceAllString(ofOneCluster.ReplaceAllString(content, ""), "$1")
}

func TestImportOverwritesNothingThatIsNewerAndTouchesNoLiveNodeUnlessToldTo(t *testing.T) {
	loseEverything(t)
	goneFor(t, "import-differs", year)
	goneFor(t, "import-same", year)
	goneFor(t, "import-spoiled", year)
	quarantined(t, "import-undecided")
	register(t, "import-live")
	edit(t, "import-live", map[string]string{"dedicated": "ci", "rack": "r1", "old": "1"}, "tenant=blue:NoSchedule")
	path, _ := export(t)

	edit(t, "import-live", map[string]string{"rack": "r2", "fresh": "1"})
	kubectl(t, "label", "node", "import-live", "old-", "dedicated-")
	kubectl(t, "taint", "node", "import-live", "tenant-")
	changeRecord(t, "import-differs", func(r *store.Record) { r.Items = map[string]string{"dedicated": "batch"} })
	changeRecord(t, "import-undecided", func(r *store.Record) { r.Items = map[string]string{"other": ""} })
	spoil(t, "import-spoiled")
	eventually(t, "import-live", func(r store.Record) bool { return maps.Equal(r.Items, map[string]string{"rack": "r2", "fresh": "1"}) })

	a := run(t, "import", path, "--dry-run")
	assert.Equal(t, 1, a.code)
	requireGolden(t, "import-dry-run", a.out)
	a = run(t, "import", path, "--dry-run", "-o", "wide", "--apply", "--overwrite")
	requireGolden(t, "import-dry-run-wide", a.out)

	a = run(t, "import", path)
	assert.Equal(t, 1, a.code)
	requireGolden(t, "import-left-alone", a.errOut)
	assert.Equal(t, "0 records imported (0 created, 0 replaced, 0 given to live Nodes); 1 the same already\n", a.out)
	assert.Equal(t, map[string]string{"dedicated": "batch"}, recordOf(t, "import-differs").Items)

	a = run(t, "import", path, "--apply", "--yes")
	assert.Equal(t, 1, a.code, a.errOut)
	assert.Contains(t, a.out, "1 given to live Nodes")
	live := labelsOf(t, "import-live")
	assert.Equal(t, []string{"ci", "r2", "1", "1"}, []string{live["dedicated"], live["rack"], live["old"], live["fresh"]}, "it gets what it lacks, and keeps what it has")
	assert.Contains(t, kubectl(t, "get", "node", "import-live", "-o", "jsonpath={.spec.taints[*].key}"), "tenant")
	eventually(t, "import-live", func(r store.Record) bool {
		return r.Items["dedicated"] == "ci" && r.Items["rack"] == "r2" && r.Items["tenant:NoSchedule"] == "blue" && r.Withheld.Items["rack"] == "r1"
	})
	a = run(t, "import", path, "--apply", "--yes")
	assert.Contains(t, a.out, "0 given to live Nodes); 2 the same already", "a second time there is nothing to do")

	a = run(t, "import", path, "--apply", "--overwrite", "--yes")
	assert.Equal(t, 1, a.code, a.errOut)
	assert.Contains(t, a.out, "2 records imported (0 created, 1 replaced, 1 given to live Nodes)")
	assert.Equal(t, "r1", labelsOf(t, "import-live")["rack"])
	assert.Equal(t, map[string]string{"dedicated": "ci", "tenant:NoSchedule": "blue"}, recordOf(t, "import-differs").Items)
	assert.Equal(t, map[string]string{"other": ""}, recordOf(t, "import-undecided").Items, "a person has to decide first")
}

// changeRecord rewrites the record of a Node that is gone.
func changeRecord(t *testing.T, node string, change func(*store.Record)) {
	t.Helper()
	entry, err := records(t).GetLive(t.Context(), node)
	require.NoError(t, err)
	change(&entry.Record)
	_, err = records(t).Put(t.Context(), entry.Record, entry.Version)
	require.NoError(t, err)
}

func TestExportNamesWhatCannotBeReadAndWritesTheRest(t *testing.T) {
	loseEverything(t)
	goneFor(t, "export-good", year)
	goneFor(t, "export-spoiled", year)
	spoil(t, "export-spoiled")
	path := filepath.Join(t.TempDir(), "records.json")
	a := run(t, "export", path)
	assert.Equal(t, 1, a.code)
	assert.Empty(t, a.out)
	requireGolden(t, "export-unreadable", a.errOut)
	assert.Equal(t, "0 records imported (0 created, 0 replaced, 0 given to live Nodes); 1 the same already\n", run(t, "import", path).requireDone(t).out)
}

func TestImportTellsAllMistakesOfAFileAndDoesNothing(t *testing.T) {
	loseEverything(t)
	goneFor(t, "mistakes-1", year)
	goneFor(t, "mistakes-2", year)
	goneFor(t, "mistakes-3", year)
	_, content := export(t)
	loseEverything(t)
	spoiled := filepath.Join(t.TempDir(), "spoiled.json")
	write := func(text string) {
		require.NoError(t, os.WriteFile(spoiled, []byte(text), 0o600))
	}
	write(strings.NewReplacer(`"node": "mistakes-1"`, `"node": "Mistakes"`, `"node": "mistakes-3"`, `"node": "mistakes-2"`, `"dedicated": "ci"`, `"dedi cated": "ci"`, `"version": 1`, `"version": 9`).Replace(content))
	a := shell(t, filepath.Dir(spoiled), "nodekeep import spoiled.json --yes")
	assert.Equal(t, 2, a.code)
	assert.Empty(t, a.out)
	requireGolden(t, "import-mistakes", a.errOut)

	for what, text := range map[string]string{
		"was cut off":                      content[:len(content)-60],
		"is no export of nodekeep's":       "apiVersion: v1\n",
		"the file is empty":                "",
		"this nodekeep reads nodekeep.dev": strings.Replace(content, "v1alpha1", "v9", 1),
		"some are missing or were added":   strings.Replace(content, `"records": 3`, `"records": 4`, 1),
		"something follows the end":        content + "{}",
	} {
		write(text)
		a := run(t, "import", spoiled, "--yes")
		assert.Equal(t, 2, a.code, what)
		assert.Contains(t, a.errOut, what)
	}
	a = run(t, "import", "no-such-file.json")
	assert.Equal(t, 2, a.code)
	a = run(t, "import", "-")
	assert.Equal(t, 2, a.code)
	assert.Contains(t, a.errOut, "with the file on stdin nobody can be asked")
	assert.Nil(t, recordOf(t, "mistakes-2"))

	a = answering(t, content, "import", "-", "--yes")
	require.Equal(t, 0, a.code, a.errOut)
	assert.NotNil(t, recordOf(t, "mistakes-2"))
}

// manyRecords is an export of that many records, as another cluster could have made it.
func manyRecords(t *testing.T, prefix string, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), prefix+".json")
	var content strings.Builder
	content.WriteString(`{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "RecordExport"}` + "\n")
	for i := range n {
		record, err := json.Marshal(store.Record{Version: store.Version, Node: fmt.Sprintf("%s-%05d", prefix, i), UID: "1", NodeResourceVersion: "5", Items: manyLabels(i), Machine: store.Machine{SystemUUID: fmt.Sprintf("4a8c%028x", i)}})
		require.NoError(t, err)
		fmt.Fprintf(&content, "{\"record\": %s}\n", record)
	}
	fmt.Fprintf(&content, "{\"end\": {\"records\": %d}}\n", n)
	require.NoError(t, os.WriteFile(path, []byte(content.String()), 0o600))
	return path
}

func manyLabels(i int) map[string]string {
	labels := map[string]string{}
	for key := range slices.Values([]string{"dedicated", "rack", "row", "example.com/pool", "example.com/team", "example.com/tier", "accelerator", "disktype", worker, "example.com/owner"}) {
		labels[key] = fmt.Sprintf("v%d", i%17)
	}
	return labels
}
