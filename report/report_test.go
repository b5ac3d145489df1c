package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/selection"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func capacity(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// hostile returns texts that a kubelet or a client could bring into a report.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onload='alert(1)`, `</style><script>alert(1)</script>`, `</title></svg><script>x</script>`,
		"=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1+1", " =1", "\uff1d1", "a,b\n=1+1", "|calc", "%0a=1",
		"x;=cmd|'/c calc'!A1", `x;"=1+1"`, `x";=1+1`, "x; +1+1", "a,b;@SUM(A1)", ";;-1", `x;""=1`,
		"\x1b[2J\x1b[31m", "\u202eabc", "a\x00b", "\xff\xfe", "javascript:alert(1)",
	}
}

// hostileReport has each of them wherever a text from the cluster can be.
func hostileReport() Report {
	nodes, judged, drifted, uses, ages, histories := NewNodes(`<b>"tier"`), NewJudged(true), NewDrifted(), NewUses(), NewAges("<i>", time.Hour, now), NewHistories(now)
	for _, text := range hostile() {
		nodes.See(map[string]string{text: text, `<b>"tier"`: text}, corev1.ResourceList{corev1.ResourceName(text): resource.MustParse("1")})
		judged.See(text, []Violation{{Rule: text, Kind: text, Mode: text, Key: text, Value: &text}})
		drifted.See(text, []DriftedLabel{{Key: text, Kind: DriftKind(text), From: text, Actual: &text, Want: &text}})
		uses.See([]selection.Use{{Object: selection.Object{Kind: text, Namespace: text, Name: text}, Key: text, Field: selection.Field(text)}})
		uses.SeePolicy(text, text, true)
		uses.NotRead(text, text)
		ages.See(map[string]string{"<i>": text}, capacity("1", "1"), now.Add(-time.Hour))
		r := record.New(text, record.Object{UID: "1", Version: 1}, map[string]string{"a": "b"})
		next := record.New(text, record.Object{UID: "1", Version: 2}, map[string]string{"a": "c"})
		histories.See(history.Append(r, next, func(string, history.Values) history.Cause {
			return history.Cause{Actor: text, Time: metav1.NewTime(now)}
		}))
	}
	return Report{
		GeneratedAt: now, Cluster: hostile()[0], Nodes: nodes.Count(), Summary: nodes.Summary(histories.Changes()), Compliance: judged.Compliance(),
		Drift: drifted.Drift(), Usage: uses.Usage(nodes.Keys()), Cost: ages.Cost(),
	}
}

func TestNoTextOfTheClusterBecomesAnElementOfThePage(t *testing.T) {
	written, err := HTML(hostileReport(), 1000)
	require.NoError(t, err)
	root, err := html.Parse(strings.NewReader(written))
	require.NoError(t, err)
	allowed := map[string]bool{}
	for _, name := range strings.Fields("html head meta title style body main header section div h1 h2 h3 p dl dt dd figure figcaption svg rect text table thead tbody tr th td") {
		allowed[name] = true
	}
	attributes := map[string]bool{"http-equiv": true}
	for _, name := range (page{}).order() {
		attributes[name] = true
	}
	styles, elements := 0, 0
	for node := range root.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		elements++
		assert.True(t, allowed[node.Data], "element %s", node.Data)
		for _, attribute := range node.Attr {
			assert.True(t, attributes[attribute.Key], "attribute %s of %s", attribute.Key, node.Data)
		}
		if node.Data == "style" {
			styles++
			assert.Equal(t, style, node.FirstChild.Data)
		}
	}
	assert.Equal(t, 1, styles)
	assert.Greater(t, elements, 500)
	for _, char := range []string{"\x1b", "\u202e", "\x00"} {
		assert.NotContains(t, written, char)
	}
	assert.NotContains(t, written, "<script")
}

func TestNoCellOfTheCSVIsAFormula(t *testing.T) {
	text, err := CSV(hostileReport().Tables())
	require.NoError(t, err)
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err, "every line has as many cells as the header")
	assert.Greater(t, len(lines), 100)
	quoted := 0
	for n, line := range lines {
		for _, cell := range line {
			trimmed := strings.TrimSpace(cell)
			if strings.HasPrefix(cell, "'") {
				quoted++
			} else if trimmed != "" && cell != absent {
				assert.NotContains(t, "=+-@|%\uff1d", string([]rune(trimmed)[0]), "line %d: %q", n, cell)
			}
			assert.NotContains(t, cell, "\n")
			assert.NotContains(t, cell, "\x1b")
		}
	}
	assert.Greater(t, quoted, 20)
}

// Where the separator of lists is a semicolon, a spreadsheet splits the line there. It takes quotes for quotes only at the beginning of a cell.
func TestNoCellOfTheCSVIsAFormulaWhereASemicolonSeparatesCells(t *testing.T) {
	text, err := CSV(hostileReport().Tables())
	require.NoError(t, err)
	reader := csv.NewReader(strings.NewReader(text))
	reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = ';', true, -1
	lines, err := reader.ReadAll()
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Split(line, ";"))
	}
	split := 0
	for _, line := range lines {
		for i, cell := range line {
			if trimmed := strings.TrimLeft(cell, "\" \t\r\n"); trimmed != "" && i > 0 {
				split++
				assert.NotContains(t, "=+-@|%\uff1d", string([]rune(trimmed)[0]), "%q", cell)
			}
		}
	}
	assert.Greater(t, split, 20)
}

func TestNumbersOfTheCSVAreNumbers(t *testing.T) {
	text, err := CSV([]Table{{Section: "s", Name: "t", Columns: []Column{text("Value"), number("n")}, Rows: [][]any{{nil, -1.5}, {"a", 2}}}, {Section: "s", Name: "u", Columns: []Column{number("n"), text("Other")}, Rows: [][]any{{3, "x"}}}})
	require.NoError(t, err)
	assert.Equal(t, "section,table,Value,n,Other\ns,t,-,-1.5,-\ns,t,a,2,-\ns,u,-,3,x\n", text)
}

// cellsOf returns the cells of the page's tables, row by row, and the names of its charts.
func cellsOf(t *testing.T, r Report) (rows [][]string, names []string) {
	t.Helper()
	written, err := HTML(r, 1000)
	require.NoError(t, err)
	root, err := html.Parse(strings.NewReader(written))
	require.NoError(t, err)
	text := func(node *html.Node) string {
		if node.FirstChild == nil {
			return ""
		}
		return node.FirstChild.Data
	}
	for node := range root.Descendants() {
		switch {
		case node.Data == "tr":
			rows = append(rows, nil)
		case node.Data == "td":
			rows[len(rows)-1] = append(rows[len(rows)-1], text(node))
		case node.Data == "text" && len(node.Attr) > 0 && node.Attr[0].Val == "name":
			names = append(names, text(node))
		}
	}
	return rows, names
}

func TestAbsentCellsAreADashAndEmptyValuesAreQuotesInEachFormat(t *testing.T) {
	empty := ""
	nodes, judged, drifted, uses, ages, histories := NewNodes("tier"), NewJudged(true), NewDrifted(), NewUses(), NewAges("tier", 0, now), NewHistories(now)
	nodes.See(map[string]string{"tier": ""}, capacity("1", "1Gi"))
	ages.See(map[string]string{"tier": ""}, capacity("1", "1Gi"), now.Add(-time.Hour))
	judged.See("missing", []Violation{{Rule: "tier", Kind: "required", Mode: "deny", Key: "tier"}})
	judged.See("empty", []Violation{{Rule: "tier", Kind: "value", Mode: "deny", Key: "tier", Value: &empty}})
	drifted.See("n", []DriftedLabel{{Key: "k", Kind: NotRestored, From: "record", Want: &empty}})
	prev := record.New("n", record.Object{UID: "1", Version: 1}, map[string]string{"k": ""})
	next := record.New("n", record.Object{UID: "1", Version: 2}, map[string]string{})
	histories.See(history.Append(prev, next, func(string, history.Values) history.Cause {
		return history.Cause{Actor: "kubectl", Time: metav1.NewTime(now)}
	}))
	r := Report{
		GeneratedAt: now, Nodes: 1, Summary: nodes.Summary(histories.Changes()), Compliance: judged.Compliance(), Drift: drifted.Drift(),
		Usage: uses.Usage(nodes.Keys()), Cost: ages.Cost(),
	}
	want := [][]string{
		{"tier", `""`, "1"},
		{"2026-03-04T05:06:07Z", "n", "k", `""`, "-", "kubectl"},
		{"missing", "required", "tier", "-", "deny"},
		{"empty", "value", "tier", `""`, "deny"},
		{"n", "k", "missing on the Node", "-", `""`, "record"},
		{"tier", "not seen in use", "1", "0", "-", "-", "-"},
		{`""`, "1", "1", "1"},
	}
	rows, names := cellsOf(t, r)
	var cells [][]string
	for _, table := range r.Tables() {
		for _, row := range table.Rows {
			var line []string
			for _, cell := range row {
				line = append(line, Text(cell))
			}
			cells = append(cells, line)
		}
	}
	for _, row := range want {
		assert.Contains(t, rows, row, "HTML")
		assert.Contains(t, cells, row, "text")
	}
	assert.Contains(t, names, `""`)
	assert.NotContains(t, names, "")

	written, err := CSV(r.Tables())
	require.NoError(t, err)
	lines, err := csv.NewReader(strings.NewReader(written)).ReadAll()
	require.NoError(t, err)
	column := func(name, table string, first string) string {
		for _, line := range lines {
			if line[1] == table && slices.Contains(line, first) {
				return line[slices.Index(lines[0], name)]
			}
		}
		return "no such line"
	}
	assert.Equal(t, `""`, column("Value", "values", "tier"))
	assert.Equal(t, "-", column("Value", "violations", "missing"))
	assert.Equal(t, `""`, column("Value", "violations", "empty"))
	assert.Equal(t, "-", column("On the Node", "labels", "n"))
	assert.Equal(t, `""`, column("Expected", "labels", "n"))
	assert.Equal(t, "-", column("Such as", "usage", "tier"))
	assert.Equal(t, "-", column("Core-hours", "usage", "tier"), "the table does not have it")
	for _, line := range lines {
		assert.NotContains(t, line, "")
	}
}

func TestSummaryCountsLabelsAndCapacity(t *testing.T) {
	nodes := NewNodes("tier")
	nodes.See(map[string]string{"tier": "a", "rack": "1"}, capacity("4", "8Gi"))
	nodes.See(map[string]string{"tier": "a", "rack": "2"}, capacity("500m", "8Gi"))
	nodes.See(map[string]string{"rack": "2", "empty": ""}, corev1.ResourceList{"example.com/gpu": resource.MustParse("2")})
	s := nodes.Summary(Changes{})
	assert.Equal(t, []Label{
		{Key: "empty", Nodes: 1, Values: 1, Counts: []Count{{"", 1}}},
		{Key: "rack", Nodes: 3, Values: 2, Counts: []Count{{"2", 2}, {"1", 1}}},
		{Key: "tier", Nodes: 2, Values: 1, Counts: []Count{{"a", 2}}},
	}, s.Labels)
	assert.Equal(t, []string{"cpu", "memory", "example.com/gpu"}, s.Resources)
	require.Len(t, s.Tiers, 2)
	assert.Equal(t, "4500m", s.Tiers[0].Capacity.Cpu().String())
	assert.Equal(t, "16Gi", s.Tiers[0].Capacity.Memory().String())
	assert.Equal(t, NoLabel, s.Tiers[1].Value)
	assert.Equal(t, map[string]int{"empty": 1, "rack": 3, "tier": 2}, nodes.Keys())
}

func TestALargeQuantityDoesNotEndTheSum(t *testing.T) {
	nodes, ages := NewNodes("tier"), NewAges("tier", 0, now)
	for range 3 {
		nodes.See(nil, capacity("9223372036854775807", "9223372036854775807"))
		ages.See(nil, capacity("9223372036854775807", "1"), now.Add(-1000*time.Hour))
	}
	r := Report{Summary: nodes.Summary(Changes{}), Cost: ages.Cost()}
	assert.Equal(t, "27670116110564327421.000000000", r.Summary.Tiers[0].Capacity.Cpu().AsDec().String())
	_, err := json.Marshal(r)
	require.NoError(t, err)
	_, err = HTML(r, 10)
	require.NoError(t, err)
}

func TestWhatAReportHoldsIsBounded(t *testing.T) {
	nodes := NewNodes("tier")
	for node := range 400 {
		labels := map[string]string{}
		for key := range 1000 {
			labels[fmt.Sprintf("k%d", key)] = fmt.Sprintf("v%d", node)
		}
		resources := corev1.ResourceList{}
		for i := range 2 {
			resources[corev1.ResourceName(fmt.Sprintf("example.com/r%d-%d", node, i))] = resource.MustParse("1")
		}
		nodes.See(labels, resources)
	}
	s := nodes.Summary(Changes{})
	assert.Equal(t, 400*1000-maxPairs, s.LeftOut)
	assert.Len(t, s.Resources, maxResources)

	judged, drifted := NewJudged(true), NewDrifted()
	for node := range maxDetails + 5 {
		judged.See(fmt.Sprint(node), []Violation{{Rule: "r", Kind: "required"}})
		drifted.See(fmt.Sprint(node), []DriftedLabel{{Key: fmt.Sprint(node), Kind: Differs}})
	}
	assert.Len(t, judged.Compliance().Details, maxDetails)
	assert.Equal(t, 5, judged.Compliance().LeftOut)
	assert.Equal(t, []BrokenRule{{Rule: "r", Kind: "required", Nodes: maxDetails + 5, First: []string{"0", "1", "2", "3", "4"}}}, judged.Compliance().Rules)
	assert.Len(t, drifted.Drift().Groups, maxGroups)
	assert.Equal(t, 5, drifted.Drift().LeftOut)
}

func TestANodeWithSeveralReservedKeysBreaksTheRuleOnce(t *testing.T) {
	judged := NewJudged(true)
	judged.See("bad", []Violation{{Rule: "example.com/*", Kind: "reserved", Key: "example.com/a"}, {Rule: "example.com/*", Kind: "reserved", Key: "example.com/b"}})
	judged.See("good", nil)
	c := judged.Compliance()
	assert.Equal(t, 1, c.Rules[0].Nodes)
	assert.Len(t, c.Details, 2)
	assert.Equal(t, 1, c.Compliant)
	assert.Equal(t, 1, c.Violating)
}

func TestWithoutGovernanceTheReportSaysSo(t *testing.T) {
	judged := NewJudged(false)
	judged.See("a", nil)
	r := Report{Compliance: judged.Compliance()}
	assert.Equal(t, notGoverned, r.Tables()[0].Note)
	page, err := HTML(r, 10)
	require.NoError(t, err)
	assert.Contains(t, page, notGoverned)
	assert.NotContains(t, page, "compliant")
}

func TestAKeyThatNothingSelectsOnWasNotSeenInUse(t *testing.T) {
	uses := NewUses()
	pod := selection.Use{Object: selection.Object{Kind: "Pod", Namespace: "n", Name: "p", Controller: "DaemonSet/d"}, Key: "used", Field: selection.NodeSelector}
	uses.See([]selection.Use{pod, {Object: pod.Object, Key: "used", Field: selection.TopologySpread}})
	uses.See([]selection.Use{{Object: selection.Object{Kind: "DaemonSet", Namespace: "n", Name: "d"}, Key: "used", Field: selection.NodeSelector}})
	uses.SeePolicy("named", "labels.keep[0]", false)
	uses.SeePolicy("decides", "taints.rules[0].selector", true)
	u := uses.Usage(map[string]int{"used": 3, "idle": 2})
	assert.Equal(t, []UsedKey{
		{Key: "used", Nodes: 3, Seen: true, Objects: map[string]int{"Pod": 1, "DaemonSet": 1}, Fields: []string{"nodeSelector", "topologySpreadConstraint"}, First: []string{"DaemonSet/n/d"}},
		{Key: "decides", Seen: true, Policy: []string{"taints.rules[0].selector"}},
		{Key: "idle", Nodes: 2},
		{Key: "named", Named: []string{"labels.keep[0]"}},
	}, u.Keys)
	text, err := CSV(Report{Usage: u}.Tables())
	require.NoError(t, err)
	assert.Contains(t, text, "idle,not seen in use,2")
	assert.NotContains(t, strings.ToLower(text), "unused")
}

func TestCostCountsHoursOfNodesThatExist(t *testing.T) {
	pos := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }
	for name, test := range map[string]struct {
		last time.Duration
		want []CostRow
	}{
		"since their creation":  {0, []CostRow{{"a", 2, 110, 1010}, {NoLabel, 1, 0, 0}}},
		"of the last ten hours": {10 * time.Hour, []CostRow{{"a", 2, 20, 110}, {NoLabel, 1, 0, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			ages := NewAges("team", test.last, now)
			ages.See(map[string]string{"team": "a"}, capacity("10", "1"), pos(100))
			ages.See(map[string]string{"team": "a"}, capacity("1", "1"), pos(10))
			ages.See(nil, nil, now.Add(time.Hour)) // by a clock that is ahead
			assert.Equal(t, test.want, ages.Cost().Rows)
		})
	}
}

func TestChangesAreThoseOfTheLastDays(t *testing.T) {
	histories := NewHistories(now)
	changed := func(node string, instant time.Time, by string) {
		prev := record.New(node, record.Object{UID: "1", Version: 1}, map[string]string{"a": "1", "b": "1"})
		next := record.New(node, record.Object{UID: "1", Version: 2}, map[string]string{"a": "2"})
		histories.See(history.Append(prev, next, func(string, history.Values) history.Cause {
			return history.Cause{Actor: by, Time: metav1.NewTime(instant)}
		}))
	}
	changed("new", now, "kubectl-label")
	changed("old", now.AddDate(0, 0, -29), "")
	changed("too-old", now.AddDate(0, 0, -40), "x")
	changed("forged", now.AddDate(9, 0, 0), "x")
	c := histories.Changes()
	require.Len(t, c.Days, daysOfChange)
	assert.Equal(t, Day{"2026-03-04", 2}, c.Days[29])
	assert.Equal(t, Day{"2026-02-03", 2}, c.Days[0])
	assert.Equal(t, []Changed{{"a", 2}, {"b", 2}}, c.Items)
	require.Len(t, c.Latest, 4)
	assert.Equal(t, "new", c.Latest[0].Node)
	assert.Equal(t, "kubectl-label", c.Latest[0].By)
	assert.Nil(t, c.Latest[1].To)
	for i := range 500 {
		changed(fmt.Sprint(i), now, "x")
	}
	assert.Len(t, histories.Changes().Latest, maxLatest)
}
