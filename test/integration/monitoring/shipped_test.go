package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// shipped is the folder of what is tested.
const shipped = "../../../manifests/chart/monitoring"

// alertsFile is what promtool and Prometheus read.
type alertsFile struct {
	Groups []struct {
		Name  string  `json:"name"`
		Rules []alert `json:"rules"`
	} `json:"groups"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func (f alertsFile) alerts() (all []alert) {
	for _, group := range f.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func alerts(t *testing.T) alertsFile {
	t.Helper()
	var file alertsFile
	content, err := os.ReadFile(filepath.Join(shipped, "alerts.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(content, &file))
	require.NotEmpty(t, file.alerts())
	return file
}

// grafana is what the tests know of a dashboard.
type grafana struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  datasource `json:"datasource"`
	GridPos     area       `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []target `json:"targets"`
}

type area struct{ X, Y, W, H int }

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type target struct {
	RefID        string     `json:"refId"`
	Datasource   datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
}

type variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Definition string `json:"definition"`
}

func dashboard(t *testing.T) (d grafana) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(shipped, "dashboard.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &d))
	return d
}

// expression is PromQL, and where it stands.
type expression struct{ place, promql string }

// grafanaVariables are what Grafana puts in their place, or something of the same kind.
var grafanaVariables = strings.NewReplacer("$__rate_interval", "5m", "$namespace", "nodekeep-system")

// expressions returns those of all alerts and of the dashboard.
func expressions(t *testing.T) (all []expression) {
	t.Helper()
	for _, a := range alerts(t).alerts() {
		all = append(all, expression{"alert " + a.Alert, a.Expr})
	}
	d := dashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, expression{fmt.Sprintf("panel %q, query %s", p.Title, target.RefID), grafanaVariables.Replace(target.Expr)})
		}
	}
	query := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			named := query.FindStringSubmatch(v.Definition)
			require.NotNil(t, named, "variable %s: %s", v.Name, v.Definition)
			all = append(all, expression{"variable " + v.Name, fmt.Sprintf("count by (%s) (%s)", named[2], named[1])})
		}
	}
	return all
}
