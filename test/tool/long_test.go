package tool

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/install"
)

func TestAnImportThatIsBrokenOffSaysHowFarItCameAndGoesOnFromThere(t *testing.T) {
	loseEverything(t)
	path := manyRecords(t, "quota", 300)
	lift := atMostConfigMaps(t, 120)
	a := run(t, "import", path, "--yes")
	assert.Equal(t, 1, a.code)
	assert.Empty(t, a.out)
	require.Regexp(t, `broken off after \d+ records imported .*; \d+ records are left: run it again, it goes on from there\n.*exceeded quota`, a.errOut)
	assert.NotContains(t, a.errOut, "you may not", "it is no right that is missing")
	done := firstNumber(t, a.errOut)
	assert.Positive(t, done)
	lift()
	a = run(t, "import", path, "--yes").requireDone(t)
	assert.Equal(t, 300, firstNumber(t, a.out)+done)
	assert.Contains(t, a.out, strconv.Itoa(done)+" the same already")
}

// firstNumber is how many records were imported, by what a command says.
func firstNumber(t *testing.T, text string) int {
	t.Helper()
	before, _, found := strings.Cut(text, " records imported")
	require.True(t, found, text)
	n, err := strconv.Atoi(before[strings.LastIndex(before, " ")+1:])
	require.NoError(t, err, text)
	return n
}

// atMostConfigMaps lets the namespace have that many more ConfigMaps. The API server takes moments to hear of a quota, of how much of
// it is used, and of its end.
func atMostConfigMaps(t *testing.T, more int) (lift func()) {
	t.Helper()
	quotas := nodekeep.Admin.CoreV1().ResourceQuotas(install.Namespace)
	limit := corev1.ResourceList{"count/configmaps": *resource.NewQuantity(int64(more), resource.DecimalSI)}
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "narrow"}, Spec: corev1.ResourceQuotaSpec{Hard: limit}}, metav1.CreateOptions{})
	require.NoError(t, err)
	lift = func() {
		err := quotas.Delete(context.WithoutCancel(t.Context()), "narrow", metav1.DeleteOptions{})
		require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
		room(t, true)
	}
	t.Cleanup(lift)
	// No controller counts here; the API server itself counts what is created from here on.
	use := func(used int) {
		quota.Status = corev1.ResourceQuotaStatus{Hard: limit, Used: corev1.ResourceList{"count/configmaps": *resource.NewQuantity(int64(used), resource.DecimalSI)}}
		quota, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
		require.NoError(t, err)
		room(t, used < more)
	}
	use(more) // that it enforces the quota shows only while all of it is used
	use(0)
	return lift
}

// room waits until another ConfigMap can be created, or is refused for the quota. No quota counts a dry run.
func room(t *testing.T, want bool) {
	t.Helper()
	ctx, another := context.WithoutCancel(t.Context()), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "another"}}
	require.Eventually(t, func() bool {
		_, err := nodekeep.Admin.CoreV1().ConfigMaps(install.Namespace).Create(ctx, another, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if want {
			return err == nil
		}
		return err != nil && strings.Contains(err.Error(), "exceeded quota")
	}, settles, 20*time.Millisecond)
}

func TestCtrlCEndsAnImportWithAWordOnWhatWasDone(t *testing.T) {
	loseEverything(t)
	const all = 4000
	path := manyRecords(t, "interrupted", all)
	command := exec.Command(nodekeep.Binary(), "import", path, "--yes")
	command.Env = environment(nodekeep.AdminKubeconfig())
	a := interrupted(t, command, func(string) bool {
		found, _, err := records(t).List(t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil && len(found) > 0
	})
	assert.Equal(t, 130, a.code, a.errOut)
	assert.Empty(t, a.out)
	assert.Regexp(t, `^interrupted after \d+ records imported .* records are left: run it again, it goes on from there\n$`, a.errOut)
	done := firstNumber(t, a.errOut)
	written := 0
	for range recordsAll(t) {
		written++
	}
	assert.Equal(t, done, written, "what it says was done is what is there")
	assert.Less(t, done, all)
	loseEverything(t)
}

// recordsAll lists the records page by page.
func recordsAll(t *testing.T) (all []store.Listed) {
	t.Helper()
	options := metav1.ListOptions{Limit: 500}
	for {
		page, meta, err := records(t).List(t.Context(), options)
		require.NoError(t, err)
		all = append(all, page...)
		if options.Continue = meta.Continue; options.Continue == "" {
			return all
		}
	}
}

// With NODEKEEP_RECORDS=100000 it says what takes how long.
func TestManyRecordsAreImportedAndExportedPageByPage(t *testing.T) {
	loseEverything(t)
	many := 1200 // more than two pages
	if wanted, err := strconv.Atoi(os.Getenv("NODEKEEP_RECORDS")); err == nil {
		many = wanted
	}
	path := manyRecords(t, "many", many)
	took := func(what string, args ...string) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), settles+time.Duration(many)*10*time.Millisecond)
		defer cancel()
		command := exec.CommandContext(ctx, nodekeep.Binary(), args...)
		command.Env = environment(nodekeep.AdminKubeconfig())
		finish(t, command).requireDone(t)
		t.Logf("%s of %d records took %s", what, many, time.Since(began).Round(10*time.Millisecond))
	}
	took("import", "import", path, "--yes")
	took("import of what is there", "import", path, "--yes")
	exported := filepath.Join(t.TempDir(), "exported.json")
	took("export", "export", exported)
	content, err := os.ReadFile(exported)
	require.NoError(t, err)
	assert.Equal(t, many, strings.Count(string(content), `"record": {`))
	took("dry run of an import", "import", exported, "--dry-run")
	began := time.Now()
	loseEverything(t)
	t.Logf("deleting them took %s", time.Since(began).Round(10*time.Millisecond))
}
