package verify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/verify"
)

func tcpCheck(name string, required bool) verify.Check {
	return verify.Check{Name: name, Required: &required, TCP: new(verify.TCP("192.0.2.1:443"))}
}

func containerCheck(name string) verify.Check {
	return verify.Check{Name: name, Container: &verify.Container{Image: "image"}}
}

func result(check string, outcome verify.Outcome, message string) verify.Result {
	r := verify.Result{Check: check, Outcome: outcome, Required: true, Message: message, Millis: 12, Tries: 3}
	if outcome != verify.Passed {
		r.Reason = verify.ReasonTimeout
	}
	return r
}

func TestAReportSurvivesEncodingAndParsing(t *testing.T) {
	checks := []verify.Check{tcpCheck("a", true), tcpCheck("b", true), tcpCheck("c", true), containerCheck("smi")}
	text := verify.Report{Results: []verify.Result{
		result("a", verify.Passed, ""), result("b", verify.Skipped, "no endpoints"), result("c", verify.Failed, "192.0.2.1:443: no <answer>"),
	}}.Encode(verify.ReportLimit(checks))
	parsed, err := verify.ParseReport(text, checks)
	require.NoError(t, err)
	assert.Equal(t, verify.Report{Results: []verify.Result{
		result("c", verify.Failed, "192.0.2.1:443: no <answer>"), result("b", verify.Skipped, "no endpoints"), result("a", verify.Passed, ""),
	}}, parsed)
	assert.True(t, parsed.Failed())
}

func TestOnlyARequiredFailureFailsAReport(t *testing.T) {
	optional := result("a", verify.Failed, "")
	optional.Required = false
	assert.False(t, verify.Report{Results: []verify.Result{optional, result("b", verify.Passed, ""), result("c", verify.Skipped, "")}}.Failed())
	assert.True(t, verify.Report{Results: []verify.Result{optional, result("b", verify.Failed, "")}}.Failed())
}

func TestAReportAlwaysFits(t *testing.T) {
	long := strings.Repeat("x", 63)
	for containers := range 20 {
		for failed := 0; failed <= 20-containers; failed++ {
			for name, message := range map[string]string{
				"no messages": "", "short messages": "no answer", "long messages": strings.Repeat("timeout ", 1000), "messages of quotes": strings.Repeat(`"\`, 3000),
				"messages of wide characters": strings.Repeat("é漢", 1500), "messages of control characters": strings.Repeat("\x00\u202e", 3000),
				"messages of one byte and wide characters": strings.Repeat("x", failed%4) + strings.Repeat("漢", 1500), "messages of brackets": strings.Repeat("<>", 28),
			} {
				t.Run(fmt.Sprintf("%d containers, %d failures, %s", containers, failed, name), func(t *testing.T) {
					var (
						checks []verify.Check
						report verify.Report
					)
					for i := range containers {
						checks = append(checks, containerCheck(fmt.Sprint("container", i)))
					}
					for i := range 20 - containers {
						checks = append(checks, tcpCheck(fmt.Sprint(i, long)[:63], true))
						outcome := verify.Passed
						if i < failed {
							outcome = verify.Failed
						}
						report.Results = append([]verify.Result{result(checks[containers+i].Name, outcome, message)}, report.Results...)
					}
					limit := verify.ReportLimit(checks)
					text := report.Encode(limit)
					require.LessOrEqual(t, len(text), limit)
					require.LessOrEqual(t, len(text), 12*1024/(1+containers), "the kubelet would cut it")
					require.False(t, strings.ContainsFunc(text, unicode.IsControl))
					require.NotContains(t, text, `\ufffd`, "a message is never cut within a character")
					require.NotContains(t, text, `\u003c`, "six bytes for one")
					parsed, err := verify.ParseReport(text, checks)
					require.NoError(t, err, text)
					require.Equal(t, report.Failed(), parsed.Failed())
					require.Equal(t, len(report.Results), len(parsed.Results)+parsed.Omitted)
					for i := range parsed.Results {
						require.Equal(t, i < failed, parsed.Results[i].Outcome == verify.Failed, "failures come first")
					}
				})
			}
		}
	}
}

func TestRequiredFailuresAreOmittedLast(t *testing.T) {
	var report verify.Report
	for i := range 200 {
		optional := result(fmt.Sprint("optional", i), verify.Failed, "")
		optional.Required = false
		report.Results = append(report.Results, result(fmt.Sprint("passed", i), verify.Passed, ""), optional)
	}
	report.Results = append(report.Results, result("required", verify.Failed, "no answer"))
	var encoded verify.Report
	require.NoError(t, json.Unmarshal([]byte(report.Encode(verify.MaxReport)), &encoded))
	assert.Equal(t, "required", encoded.Results[0].Check)
	assert.True(t, encoded.Failed())
	assert.Equal(t, 401, len(encoded.Results)+encoded.Omitted)
}

func TestWhatIsNotExactlyAReportIsAnError(t *testing.T) {
	const (
		a = `{"check":"a","outcome":"passed","required":true,"millis":1,"tries":1}`
		b = `{"check":"b","outcome":"failed","required":false,"reason":"Timeout","message":"no answer","millis":1}`
	)
	checks := []verify.Check{tcpCheck("a", true), tcpCheck("b", false), containerCheck("smi")}
	_, err := verify.ParseReport(`{"results":[`+a+`,`+b+`]}`, checks)
	require.NoError(t, err, "the cases below differ from this one in what their names say")
	for name, message := range map[string]string{
		"nothing":                            ``,
		"text":                               `Killed`,
		"null":                               `null`,
		"a number":                           `1`,
		"an array":                           `[` + a + `,` + b + `]`,
		"an empty object":                    `{}`,
		"a report that was cut":              `{"results":[` + a + `,` + b[:20],
		"two reports":                        `{"results":[` + a + `,` + b + `]}{"results":[]}`,
		"an unknown field":                   `{"results":[` + a + `,` + b + `],"verified":true}`,
		"an unknown field of a result":       `{"results":[` + a + `,` + strings.Replace(b, `"millis"`, `"x":1,"millis"`, 1) + `]}`,
		"a field in other case":              `{"results":[` + a + `,` + strings.Replace(b, `"millis"`, `"Millis"`, 1) + `]}`,
		"a field twice":                      `{"results":[` + a + `,` + strings.Replace(b, `"outcome":"failed"`, `"outcome":"failed","outcome":"passed"`, 1) + `]}`,
		"results twice":                      `{"results":[],"results":[` + a + `,` + b + `]}`,
		"a missing check":                    `{"results":[` + a + `]}`,
		"a missing check said to be omitted": `{"results":[` + a + `],"omitted":1}`,
		"all checks said to be omitted":      `{"results":[],"omitted":2}`,
		"a wrong number of omitted ones":     `{"results":[` + a + `,` + b + `],"omitted":1}`,
		"a negative number of omitted ones":  `{"results":[` + a + `,` + b + `],"omitted":-1}`,
		"a check twice":                      `{"results":[` + a + `,` + a + `,` + b + `]}`,
		"an unknown check":                   `{"results":[` + a + `,` + b + `,` + strings.Replace(a, `"a"`, `"c"`, 1) + `]}`,
		"a container check":                  `{"results":[` + a + `,` + b + `,` + strings.Replace(a, `"a"`, `"smi"`, 1) + `]}`,
		"an unknown outcome":                 `{"results":[` + a + `,` + strings.Replace(b, `failed`, `Failed`, 1) + `]}`,
		"a required check said to be not":    `{"results":[` + strings.Replace(a, `true`, `false`, 1) + `,` + b + `]}`,
		"a check not required said to be":    `{"results":[` + a + `,` + strings.Replace(b, `false`, `true`, 1) + `]}`,
		"a failure without a reason":         `{"results":[` + a + `,` + strings.Replace(b, `Timeout`, ``, 1) + `]}`,
		"a reason that is no word":           `{"results":[` + a + `,` + strings.Replace(b, `Timeout`, `Time out`, 1) + `]}`,
		"a reason in lower case":             `{"results":[` + a + `,` + strings.Replace(b, `Timeout`, `timeout`, 1) + `]}`,
		"a reason without end":               `{"results":[` + a + `,` + strings.Replace(b, `Timeout`, strings.Repeat("T", 41), 1) + `]}`,
		"a passed check with a reason":       `{"results":[` + strings.Replace(a, `"millis"`, `"reason":"Timeout","millis"`, 1) + `,` + b + `]}`,
		"a control character":                `{"results":[` + a + `,` + strings.Replace(b, `no answer`, "no\x1banswer", 1) + `]}`,
		"an escaped control character":       `{"results":[` + a + `,` + strings.Replace(b, `no answer`, `no\u001banswer`, 1) + `]}`,
		"an escaped new line":                `{"results":[` + a + `,` + strings.Replace(b, `no answer`, `no\nanswer`, 1) + `]}`,
		"what is not UTF-8":                  `{"results":[` + a + `,` + strings.Replace(b, `no answer`, "no\xffanswer", 1) + `]}`,
		"a negative time":                    `{"results":[` + a + `,` + strings.Replace(b, `"millis":1`, `"millis":-1`, 1) + `]}`,
		"a time longer than a day":           `{"results":[` + a + `,` + strings.Replace(b, `"millis":1`, `"millis":86400001`, 1) + `]}`,
		"a time that is no whole number":     `{"results":[` + a + `,` + strings.Replace(b, `"millis":1`, `"millis":1.5`, 1) + `]}`,
		"a negative number of tries":         `{"results":[` + strings.Replace(a, `"tries":1`, `"tries":-1`, 1) + `,` + b + `]}`,
		"an absurd number of tries":          `{"results":[` + strings.Replace(a, `"tries":1`, `"tries":1000001`, 1) + `,` + b + `]}`,
		"more than the limit":                `{"results":[` + a + `,` + b + `]}` + strings.Repeat(" ", verify.MaxReport),
	} {
		t.Run(name, func(t *testing.T) {
			report, err := verify.ParseReport(message, checks)
			require.Error(t, err)
			assert.Equal(t, verify.Report{}, report)
			assert.Less(t, len(err.Error()), 200)
		})
	}
}

func TestReportsShowNoBidirectionalText(t *testing.T) {
	checks := []verify.Check{tcpCheck("a", true)}
	parsed, err := verify.ParseReport(`{"results":[{"check":"a","outcome":"failed","required":true,"reason":"Error","message":"a\u202eb\u2066c\u2028d\u200be\ufefff","millis":1}]}`, checks)
	require.NoError(t, err)
	assert.Equal(t, "a b c d e f", parsed.Results[0].Message)
}

// FuzzParseReport holds for any message: an error, or a report about exactly the expected checks that a terminal may show.
func FuzzParseReport(f *testing.F) {
	checks := []verify.Check{tcpCheck("a", true), tcpCheck("b", false), containerCheck("smi")}
	for _, seed := range []string{
		``, `null`, `{}`, `{"results":[],"omitted":2}`, `{"results":null}`,
		`{"results":[{"check":"a","outcome":"passed","required":true,"millis":1},{"check":"b","outcome":"failed","required":false,"reason":"Timeout","message":"\u202e","millis":1,"tries":2}]}`,
		`{"results":[{"check":"a","outcome":"skipped","required":true,"reason":"ColdStart","millis":0}],"omitted":1}`,
		strings.Repeat(`[`, 2000), `{"results":[` + strings.Repeat(`{},`, 500) + `{}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		report, err := verify.ParseReport(message, checks)
		if err != nil {
			assert.NotContains(t, err.Error(), "\n")
			return
		}
		assert.Equal(t, 2, len(report.Results)+report.Omitted)
		for _, result := range report.Results {
			assert.Equal(t, verify.Clean(result.Message), result.Message)
			assert.Contains(t, []string{"a", "b"}, result.Check)
		}
		reread, err := verify.ParseReport(report.Encode(verify.ReportLimit(checks)), checks)
		if report.Omitted == 0 {
			require.NoError(t, err)
			assert.Equal(t, report.Failed(), reread.Failed())
		}
	})
}

// FuzzEncode holds for any texts: the report fits, and its verdict stays.
func FuzzEncode(f *testing.F) {
	f.Add("no answer", uint16(3), uint16(4096))
	f.Add(strings.Repeat(`"\`, 100), uint16(30), uint16(558))
	f.Add("\xff\x00\u202e", uint16(1), uint16(600))
	f.Fuzz(func(t *testing.T, message string, failures, limit uint16) {
		message = message[:min(len(message), 2000)]
		limit = max(limit%verify.MaxReport, 200)
		var report verify.Report
		for i := range int(failures % 32) {
			report.Results = append(report.Results, result(fmt.Sprint("passed", i), verify.Passed, message), result(fmt.Sprint("failed", i), verify.Failed, message))
		}
		text := report.Encode(int(limit))
		require.LessOrEqual(t, len(text), int(limit))
		var encoded verify.Report
		require.NoError(t, json.Unmarshal([]byte(text), &encoded))
		require.Equal(t, report.Failed(), encoded.Failed())
		require.Equal(t, len(report.Results), len(encoded.Results)+encoded.Omitted)
		require.Equal(t, text, strings.ToValidUTF8(text, ""))
	})
}
