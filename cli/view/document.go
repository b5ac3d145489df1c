package view

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is what a command answers: for programs the value itself, by its JSON tags, and for people a document.
type Answer interface {
	Document(now time.Time) Document
}

// Document is what people read.
type Document struct {
	Facts  []Fact
	Tables []*metav1.Table // those without rows are left out
}

// Fact is one line of a document.
type Fact struct{ Name, Value string }

// with adds a fact, unless it has nothing to say.
func (d *Document) with(name, value string) {
	if value != "" {
		d.Facts = append(d.Facts, Fact{name, value})
	}
}
