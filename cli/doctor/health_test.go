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
	report := RunChecks(healthy(t), nil)
	for _, result := range report.Checks {
		assert.Equal(t, StatusOK, result.Status, "%s: %s", result.Check, result.Title)
		assert.NotEmpty(t, result.Title, result.Check)
	}
	assert.True(t, report.Healthy)
	assert.Len(t, report.Checks, len(Names()))
}

func TestWhatWasNotReadIsNotKnownAndNeverRight(t *testing.T) {
	report := RunChecks(Installation{Namespace: namespace, Now: now}, nil)
	assert.False(t, report.Healthy)
	assert.Zero(t, report.Findings)
	for _, result := range report.Checks {
		assert.Equal(t, Status(SeverityUnknown), result.Status, "%s: %s", result.Check, result.Title)
	}
}

func TestChecksCanBeLeftOut(t *testing.T) {
	report := RunChecks(Installation{}, Names()[1:])
	assert.Len(t, report.Checks, 1)
	assert.Equal(t, Names()[0], report.Checks[0].Check)
}

func TestAnUnknownSaysWhyAndHowToGetToKnow(t *testing.T) {
	seen := healthy(t)
	seen.CaptureLease = NotKnown[Leadership](Unknown{Reason: "you may not get leases", Remedy: Remedy{Text: "An administrator can grant it:", Commands: []string{"kubectl create role"}}})
	report := RunChecks(seen, nil)
	assert.Equal(t, 2, report.Unknown, "the clock's and the leader's")
	result := resultOf(t, report, "leader")
	assert.Equal(t, Result{Check: "leader", Status: "unknown", Title: "you may not get leases", Findings: []Finding{{
		Severity: SeverityUnknown, Object: "lease/nodekeep-capture", Message: "you may not get leases", Remedy: seen.CaptureLease.Unknown.Remedy,
	}}}, result)
}

func TestTheWorstFindingIsWhatACheckComesTo(t *testing.T) {
	var a answer
	a.findings = []Finding{{Severity: SeverityUnknown, Message: "c"}, {Severity: Warning, Message: "b"}, {Severity: Error, Message: "a"}, {Severity: Error, Message: "z"}}
	result := a.result("x")
	assert.Equal(t, Status(Error), result.Status)
	assert.Equal(t, "a", result.Title)
	var order []string
	for _, finding := range result.Findings {
		order = append(order, finding.Message)
	}
	assert.Equal(t, []string{"a", "z", "b", "c"}, order)
}

func TestFewNameTheFirstAndCountAll(t *testing.T) {
	var sample Sample[int]
	for i := range 25 {
		sample.Add(i)
	}
	assert.Equal(t, 25, sample.All)
	assert.Len(t, sample.First, maxNamed)
	var a answer
	addRest(&a, Error, sample, "things", "see")
	assert.Equal(t, "15 more things", a.findings[0].Message)
}

// breakage is an installation in which one thing is not right.
type breakage struct {
	set  func(*Installation)
	want []string // "check: severity: object: what", of all findings there are; what may be cut off by "..."
}

// found returns the findings of all checks, each as "check: severity: object: what". Each has a remedy.
func found(t *testing.T, seen Installation) (all []string) {
	t.Helper()
	for _, result := range RunChecks(seen, nil).Checks {
		for _, finding := range result.Findings {
			all = append(all, result.Check+": "+string(finding.Severity)+": "+finding.Object+": "+finding.Message)
			assert.NotEmpty(t, finding.Text, "%s has no remedy", finding.Message)
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
			test.set(&seen)
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
	i := slices.IndexFunc(report.Checks, func(r Result) bool { return r.Check == check })
	require.GreaterOrEqual(t, i, 0, check)
	return report.Checks[i]
}

// notes returns those of a healthy installation.
func notes(t *testing.T, seen Installation) (all []string) {
	t.Helper()
	report := RunChecks(seen, nil)
	assert.True(t, report.Healthy)
	assert.Zero(t, report.Findings)
	for _, note := range report.Distinct() {
		all = append(all, string(note.Severity)+": "+note.Message)
	}
	return all
}

func TestEachThingThatWasNotReadIsNotKnownByAtLeastOneCheckAndWrongByNone(t *testing.T) {
	fields := reflect.TypeFor[Installation]()
	for i := range fields.NumField() {
		if fields.Field(i).Type.Kind() != reflect.Struct || fields.Field(i).Name == "Now" {
			continue
		}
		seen := healthy(t)
		if name := fields.Field(i).Name; name == "APIGroups" || name == "Ledger" {
			removing(t, verify.RemovalKinds()...)(&seen)
		}
		reflect.ValueOf(&seen).Elem().Field(i).SetZero()
		report := RunChecks(seen, nil)
		assert.NotZero(t, report.Unknown, fields.Field(i).Name)
		assert.Zero(t, report.Findings, "%s: %+v", fields.Field(i).Name, report)

		if absent := reflect.ValueOf(&seen).Elem().Field(i).FieldByName("Absent"); assert.True(t, absent.IsValid(), fields.Field(i).Name) {
			absent.SetBool(true)
			assert.NotPanics(t, func() { RunChecks(seen, nil) }, fields.Field(i).Name)
		}
	}
}

func TestAFindingThatSeveralChecksShareIsShownOnceTheWorstFirst(t *testing.T) {
	denied := Finding{Severity: SeverityUnknown, Object: "secret/a", Message: "you may not get secrets"}
	rest := denied
	rest.Object = "secret/b"
	broken := Finding{Severity: Error, Object: "node/a", Message: "broken"}
	report := Report{Checks: []Result{
		{Check: "one", Findings: []Finding{denied}}, {Check: "two", Findings: []Finding{rest, broken}}, {Check: "three", Findings: []Finding{{Severity: Error, Object: "node/b", Message: "broken"}}},
	}}
	reported := report.Distinct()
	assert.Len(t, reported, 3)
	assert.Equal(t, "node/a: broken", reported[0].Sentence())
	assert.Equal(t, "node/b: broken", reported[1].Sentence())
	assert.Equal(t, ReportedFinding{Finding: denied, Checks: []string{"one", "two"}}, reported[2])
	assert.Equal(t, "you may not get secrets", reported[2].Sentence())
}

func TestASummaryCountsFindings(t *testing.T) {
	assert.Equal(t, "fine", Result{Status: StatusOK, Title: "fine"}.Summary())
	assert.Equal(t, "2 errors, 1 warning, 1 unknown; see below", Result{Findings: []Finding{{Severity: SeverityUnknown}, {Severity: Error}, {Severity: Warning}, {Severity: Error}}}.Summary())
}
