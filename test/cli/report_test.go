package cli

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// governedSections have a rule of each kind that labels alone can break.
const governedSections = `governance:
  keys:
  - {key: tier, values: [gold, silver], required: true, mode: deny}
  - {key: rack, pattern: 'r[0-9]+', mode: warn}
  reserved: ["*.example.com/*"]
`

// selectsOn makes a DaemonSet whose Pods run on Nodes with a label.
func selectsOn(t *testing.T, name, key string) {
	t.Helper()
	labels := map[string]string{"app": name}
	pods := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{key: "a"}, Containers: []corev1.Container{{Name: "a", Image: "a"}},
	}}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pods}}
	sets := nodekeep.Admin.AppsV1().DaemonSets("default")
	_, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	deletedAtEnd(t, "daemonset", name, "-n", "default")
}

var days = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}\b`)

func TestTheReportShowsEachSectionAsTablesAndForASpreadsheet(t *testing.T) {
	loseEverything(t)
	for name, labels := range map[string]map[string]string{
		"report-1": {"tier": "gold", "rack": "r1"}, "report-2": {"tier": "iron", "rack": "x1"}, "report-3": {"b.example.com/x": "1"},
	} {
		register(t, name)
		edit(t, name, labels)
	}
	changed(t, "report-1", 1, "label", "node", "report-1", "rack=r2", "--overwrite", "--field-manager=alice")
	selectsOn(t, "report-agent", "rack")
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(2 * time.Second))) // all Nodes are older than the second that cost counts of each
	file := policyFile(t, governedSections)
	for _, section := range []string{"summary", "compliance", "drift", "usage", "cost"} {
		args := []string{"report", section, "--policy", file, "--tier", "tier", "--last", "1s"}
		shown := run(t, args...).RequireDone(t)
		requireGolden(t, "report-"+section, days.ReplaceAllString(alike(shown.Out), "<day>     "))
		sheet := run(t, append(args, "-o", "csv")...).RequireDone(t)
		requireGolden(t, "report-"+section+"-csv", days.ReplaceAllString(alike(sheet.Out), "<day>"))
	}
}

func TestReportComplianceShowsByItsExitCodeWhetherANodeBreaksARule(t *testing.T) {
	loseEverything(t)
	for name, labels := range map[string]map[string]string{"report-4": {"tier": "gold", "rack": "r1"}, "report-5": {"tier": "iron"}} {
		register(t, name)
		edit(t, name, labels)
	}
	args := []string{"report", "compliance", "--policy", policyFile(t, governedSections)}
	run(t, args...).RequireDone(t) // only the flag makes a violation a finding
	args = append(args, "--exit-code")
	for _, format := range []string{"table", "json", "csv", "html"} {
		broken := run(t, append(args, "-o", format)...)
		assert.Equal(t, 1, broken.Code, format)
		assert.Contains(t, broken.ErrOut, "rules of governance are broken on 1 Node", format)
		assert.Contains(t, broken.Out, "report-5", format)
	}
	edit(t, "report-5", map[string]string{"tier": "gold"})
	fine := run(t, args...).RequireDone(t)
	assert.Empty(t, fine.ErrOut)

	edit(t, "report-5", map[string]string{"rack": "x"})
	assert.Equal(t, 1, run(t, args...).Code, "a rule of mode warn counts, too")
	all := run(t, "report", "--policy", args[3], "--exit-code")
	assert.Equal(t, 1, all.Code)
	assert.Contains(t, all.ErrOut, "rules of governance are broken on 1 Node", "a report of all sections has compliance")
	ungoverned := run(t, "report", "compliance", "--policy", policyFile(t, ""), "--exit-code").RequireDone(t)
	assert.Contains(t, ungoverned.Out, "no section governance")
	wrong := run(t, "report", "drift", "--exit-code")
	assert.Equal(t, 2, wrong.Code)
	assert.Contains(t, wrong.ErrOut, "--exit-code")
}

func TestMigratePlanAndStatusShowWhatIsLeftAndNewRefusesWhileAnObjectSelectsOnTheOldKey(t *testing.T) {
	loseEverything(t)
	for name, labels := range map[string]map[string]string{
		"migrate-1": {"gpu": "a"}, "migrate-2": {"gpu": "a", "example.com/gpu": "a"}, "migrate-3": {"gpu": "a", "example.com/gpu": "b"}, "migrate-4": {"gpu": "a"},
	} {
		register(t, name)
		edit(t, name, labels)
	}
	remove(t, "migrate-4")
	selectsOn(t, "migrate-agent", "gpu")
	requireGolden(t, "report-migration", run(t, "report", "migrations", "gpu=example.com/gpu").RequireDone(t).Out)
	refused := run(t, "report", "migrations", "gpu=node-restriction.kubernetes.io/gpu", "--exit-code")
	assert.Equal(t, 1, refused.Code)
	requireGolden(t, "report-migration-refused", refused.Out)
	requireGolden(t, "report-migrations-none", run(t, "report", "migrations").RequireDone(t).Out)

	// Without capture nothing is renamed here; test/integration/migration does that.
	require.NoError(t, nodekeep.StopCapture())
	combined := migrating("both", "")
	returned := goesBy(t, combined)
	defer func() {
		require.NoError(t, nodekeep.StartCapture(t.Context()))
		returned()
	}()
	status := run(t, "report", "migrations", "--exit-code")
	assert.Equal(t, 1, status.Code)
	requireGolden(t, "report-migrations", status.Out)
	refused = run(t, "accept", "migration", "gpu=example.com/gpu", "--yes")
	assert.Equal(t, 1, refused.Code)
	requireGolden(t, "accept-migration-refused", refused.ErrOut)
	findings := run(t, "doctor").Out
	assert.Contains(t, findings, "the migration of gpu to example.com/gpu is open, in phase both: old key only 1, both keys 1, conflict 1, away 1")
	assert.Contains(t, findings, "leaves 1 Nodes or records alone: both keys have a value of their own there")

	rollOut(t, migrating("new", ""))
	findings = run(t, "doctor").Out
	assert.Contains(t, findings, "the migration of gpu to example.com/gpu is held, and blocked: 1 DaemonSet selects on gpu by nodeSelector: default/migrate-agent")
	assert.Contains(t, findings, "nodekeep accept migration gpu=example.com/gpu\n")

	nodekeep.MustKubectl(t, "-n", "default", "delete", "daemonset", "migrate-agent")
	rollOut(t, combined)
	requireGolden(t, "accept-migration-both", run(t, "accept", "migration", "gpu=example.com/gpu", "--yes").RequireDone(t).Out)
}

func TestShowNamesTheRulesOfGovernanceThatANodeBreaks(t *testing.T) {
	register(t, "show-governed")
	edit(t, "show-governed", map[string]string{"tier": "iron"})
	defer goesBy(t, policytest.Manifest(governedSections))()
	requireGolden(t, "show-governed", run(t, "show", "show-governed").RequireDone(t).Out)
	nodekeep.ForcePolicy(t, policytest.Manifest("retention: 5s"))
	a := ends(t, 0, "NodePolicy default cannot be used: spec.retention: Invalid value: \"5s\"", "show", "show-governed")
	assert.Contains(t, a.ErrOut, "what was accepted last stays in force (key policy.json of ConfigMap nodekeep-accepted).\n")
	requireGolden(t, "show-governed", a.Out)
}
