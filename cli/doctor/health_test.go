package doctor

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/verify"
)

func TestAnInstallationOfTheManifestsIsHealthy(t *testing.T) {
	report := Judge(healthy(t), nil)
	for _, result := range report.Checks {
		assert.Equal(t, StatusOK, result.Status, "%s: %s", result.Check, result.What)
		assert.NotEmpty(t, result.What, result.Check)
	}
	assert.True(t, report.Healthy)
	assert.Len(t, report.Checks, len(Names()))
}

func TestWhatWasNotReadIsNotKnownAndNeverRight(t *testing.T) {
	report := Judge(Seen{Namespace: namespace, Now: now}, nil)
	assert.False(t, report.Healthy)
	assert.Zero(t, report.Findings)
	for _, result := range report.Checks {
		assert.Equal(t, Status(Lacking), result.Status, "%s: %s", result.Check, result.What)
	}
}

func TestChecksCanBeLeftOut(t *testing.T) {
	report := Judge(Seen{}, Names()[1:])
	assert.Len(t, report.Checks, 1)
	assert.Equal(t, Names()[0], report.Checks[0].Check)
}

func TestAnUnknownSaysWhyAndHowToGetToKnow(t *testing.T) {
	seen := healthy(t)
	seen.Leader = NotKnown[Leadership](Unknown{Why: "you may not get leases", Remedy: Remedy{Text: "An administrator can grant it:", Commands: []string{"kubectl create role"}}})
	report := Judge(seen, nil)
	assert.Equal(t, 2, report.Unknown, "the clock's and the leader's")
	result := resultOf(t, report, "leader")
	assert.Equal(t, Result{Check: "leader", Status: "unknown", What: "you may not get leases", Findings: []Finding{{
		Severity: Lacking, Object: "lease/nodekeep-capture", What: "you may not get leases", Remedy: seen.Leader.Unknown.Remedy,
	}}}, result)
}

func TestTheWorstFindingIsWhatACheckComesTo(t *testing.T) {
	var a answer
	a.findings = []Finding{{Severity: Lacking, What: "c"}, {Severity: Warning, What: "b"}, {Severity: Error, What: "a"}, {Severity: Error, What: "z"}}
	result := a.result("x")
	assert.Equal(t, Status(Error), result.Status)
	assert.Equal(t, "a", result.What)
	var order []string
	for _, finding := range result.Findings {
		order = append(order, finding.What)
	}
	assert.Equal(t, []string{"a", "z", "b", "c"}, order)
}

func TestFewNameTheFirstAndCountAll(t *testing.T) {
	var few Few[int]
	for i := range 25 {
		few.Add(i)
	}
	assert.Equal(t, 25, few.All)
	assert.Len(t, few.First, mostNamed)
	var a answer
	findMore(&a, Error, few, "things", "see")
	assert.Equal(t, "15 more things", a.findings[0].What)
}

// breakage is an installation in which one thing is not right.
type breakage struct {
	is   func(*Seen)
	want []string // "check: severity: object: what", of all findings there are; what may be cut off by "..."
}

// found returns the findings of all checks, each as "check: severity: object: what". Each has a remedy.
func found(t *testing.T, seen Seen) (all []string) {
	t.Helper()
	for _, result := range Judge(seen, nil).Checks {
		for _, finding := range result.Findings {
			all = append(all, result.Check+": "+string(finding.Severity)+": "+finding.Object+": "+finding.What)
			assert.NotEmpty(t, finding.Text, "%s has no remedy", finding.What)
			for _, command := range finding.Commands {
				assert.Regexp(t, `^(kubectl|nodekeep|helm) `, command)
			}
		}
	}
	return all
}

func requireFindings(t *testing.T, breakages map[string]breakage) {
	t.Helper()
	for name, test := range breakages {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			test.is(&seen)
			got := found(t, seen)
			if assert.Len(t, got, len(test.want), "%q", got) {
				for i, want := range test.want {
					begin, cut := strings.CutSuffix(want, "...")
					assert.True(t, got[i] == want || cut && strings.HasPrefix(got[i], begin), "%q is not %q", got[i], want)
				}
			}
		})
	}
}

func resultOf(t *testing.T, report Report, check string) Result {
	t.Helper()
	at := slices.IndexFunc(report.Checks, func(r Result) bool { return r.Check == check })
	require.GreaterOrEqual(t, at, 0, check)
	return report.Checks[at]
}

// notes returns those of a healthy installation.
func notes(t *testing.T, seen Seen) (all []string) {
	t.Helper()
	report := Judge(seen, nil)
	assert.True(t, report.Healthy)
	assert.Zero(t, report.Findings)
	for _, note := range report.Distinct() {
		all = append(all, string(note.Severity)+": "+note.What)
	}
	return all
}

func TestEachThingThatWasNotReadIsNotKnownByAtLeastOneCheckAndWrongByNone(t *testing.T) {
	fields := reflect.TypeFor[Seen]()
	for i := range fields.NumField() {
		if fields.Field(i).Type.Kind() != reflect.Struct || fields.Field(i).Name == "Now" {
			continue
		}
		seen := healthy(t)
		if name := fields.Field(i).Name; name == "Groups" || name == "Ledger" {
			removing(t, verify.RemovalKinds()...)(&seen)
		}
		reflect.ValueOf(&seen).Elem().Field(i).SetZero()
		report := Judge(seen, nil)
		assert.NotZero(t, report.Unknown, fields.Field(i).Name)
		assert.Zero(t, report.Findings, "%s: %+v", fields.Field(i).Name, report)

		if absent := reflect.ValueOf(&seen).Elem().Field(i).FieldByName("Absent"); assert.True(t, absent.IsValid(), fields.Field(i).Name) {
			absent.SetBool(true)
			assert.NotPanics(t, func() { Judge(seen, nil) }, fields.Field(i).Name)
		}
	}
}

func TestAFindingThatSeveralChecksShareIsShownOnceTheWorstFirst(t *testing.T) {
	denied := Finding{Severity: Lacking, Object: "secret/a", What: "you may not get secrets"}
	elsewhere := denied
	elsewhere.Object = "secret/b"
	broken := Finding{Severity: Error, Object: "node/a", What: "broken"}
	report := Report{Checks: []Result{
		{Check: "one", Findings: []Finding{denied}}, {Check: "two", Findings: []Finding{elsewhere, broken}}, {Check: "three", Findings: []Finding{{Severity: Error, Object: "node/b", What: "broken"}}},
	}}
	told := report.Distinct()
	assert.Len(t, told, 3)
	assert.Equal(t, "node/a: broken", told[0].Sentence())
	assert.Equal(t, "node/b: broken", told[1].Sentence())
	assert.Equal(t, Told{Finding: denied, Checks: []string{"one", "two"}}, told[2])
	assert.Equal(t, "you may not get secrets", told[2].Sentence())
}

func TestASummaryCountsFindings(t *testing.T) {
	assert.Equal(t, "fine", Result{Status: StatusOK, What: "fine"}.Summary())
	assert.Equal(t, "2 errors, 1 warning, 1 unknown; see below", Result{Findings: []Finding{{Severity: Lacking}, {Severity: Error}, {Severity: Warning}, {Severity: Error}}}.Summary())
}
