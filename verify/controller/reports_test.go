package controller

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

// keep stores a report of a Node as an earlier process did; age is that of the report and of its ConfigMap.
func (b *bed) keep(name string, age time.Duration, change func(*corev1.ConfigMap)) {
	b.t.Helper()
	t := b.now().Add(-age)
	object := reportMap(namespace, verify.SavedReport{Node: name, Time: t})
	object.UID, object.ResourceVersion, object.CreationTimestamp = types.UID(name), "1", metav1.NewTime(t)
	if change != nil {
		change(object)
	}
	require.NoError(b.t, b.client.Tracker().Add(object))
}

// keeps reports whether the report of a Node exists.
func (b *bed) keeps(name string) bool {
	b.t.Helper()
	_, err := b.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), namespace, verify.ReportName(name))
	if err != nil {
		require.True(b.t, apierrors.IsNotFound(err), "%v", err)
	}
	return err == nil
}

func TestOldReportsAreDeletedUnlessTheirNodeWaits(t *testing.T) {
	const old, young = 2 * time.Hour, time.Minute // the retention of the bed is one hour
	unreadable := func(object *corev1.ConfigMap) { object.Data[verify.ReportKey] = "{" }
	b := newBed(t)
	b.sweep = 10 * time.Millisecond
	b.register("waits", "")
	b.keep("waits", old, nil)
	b.keep("deleted", old, nil)
	b.keep("young", young, nil)
	b.keep("rewritten", old, func(object *corev1.ConfigMap) { // of an attempt that is younger than the ConfigMap
		object.Data[verify.ReportKey] = verify.SavedReport{Node: "rewritten", Time: b.now()}.String()
	})
	b.keep("unreadable-old", old, unreadable)
	b.keep("unreadable-young", young, unreadable)
	b.keep("other", old, func(object *corev1.ConfigMap) { object.Labels = nil })
	_, stop := b.process()
	defer stop()
	b.waitFor("old reports must be deleted", func() bool { return !b.keeps("deleted") && !b.keeps("unreadable-old") })
	// A sweep that starts later deletes this report, so an earlier sweep has finished.
	b.keep("zz-last", old, nil)
	b.waitFor("the next sweep must finish", func() bool { return !b.keeps("zz-last") })
	for _, name := range []string{"waits", "young", "rewritten", "unreadable-young", "other"} {
		require.True(t, b.keeps(name), name)
	}

	b.say("waits", passes)
	b.waitFor("the Node must open", func() bool { return isOpen(b.node("waits")) })
	b.waitFor("its report must be deleted", func() bool { return !b.keeps("waits") })
}

func TestReportsAreReadAndDeletedPageByPage(t *testing.T) {
	b := newBed(t)
	b.sweep = 10 * time.Millisecond
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		b.keep(name, 2*time.Hour, nil)
	}
	var largest, pages atomic.Int64
	b.reacts("list", "configmaps", func(action k8stesting.Action) (bool, runtime.Object, error) { // two to a page
		options := action.(k8stesting.ListActionImpl).ListOptions
		largest.Store(max(largest.Load(), options.Limit))
		pages.Add(1)
		from, page := 0, &corev1.ConfigMapList{}
		if options.Continue != "" {
			from, _ = strconv.Atoi(options.Continue)
		}
		for _, name := range names[from:min(from+2, len(names))] {
			object, err := b.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), namespace, verify.ReportName(name))
			if err == nil {
				page.Items = append(page.Items, *object.(*corev1.ConfigMap))
			}
		}
		if from+2 < len(names) {
			page.Continue = strconv.Itoa(from + 2)
		}
		return true, page, nil
	})
	_, stop := b.process()
	defer stop()
	b.waitFor("the reports of all pages must be deleted", func() bool { return !slices.ContainsFunc(names, b.keeps) })
	assert.GreaterOrEqual(t, pages.Load(), int64(3))
	assert.Equal(t, int64(reportsAtOnce), largest.Load(), "the API server is asked for no more at once")
}
