package view

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// column is one that every table of its kind shows.
func column(name string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string"}
}

// wideColumn is one that only the wide format shows.
func wideColumn(name string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1}
}

func row(cells ...any) metav1.TableRow { return metav1.TableRow{Cells: cells} }

// none stands in cells that have nothing to say.
const none = "-"

// ago is how long something has been so, as kubectl writes ages.
func ago(since time.Time, now time.Time) string {
	if since.IsZero() {
		return none
	}
	return duration.HumanDuration(now.Sub(since))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}
