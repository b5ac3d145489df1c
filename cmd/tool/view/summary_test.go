package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func TestASummaryKeepsNeitherTheNodeNorTheHistoryInMemory(t *testing.T) {
	moment := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s := Sight{
		Name:   "n1",
		Node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", CreationTimestamp: moment}},
		Record: &store.Record{Node: "n1", History: []store.Change{{Number: 1, Actor: "kubectl-label", Time: moment}}},
	}
	summary := SummaryOf(s, World{Policy: policy.Default(), Guarded: true, Now: moment.Time})
	assert.Equal(t, []metav1.Time{moment, moment}, []metav1.Time{*summary.Since, *summary.LastChange})
	assert.NotSame(t, &s.Node.CreationTimestamp, summary.Since)
	assert.NotSame(t, &s.Record.History[0].Time, summary.LastChange)
}
