package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// watching is one capture, and what it read from the API server.
type watching struct {
	name         string
	bytes        atomic.Int64
	all, resumed atomic.Int64 // requests for all records, and watches that resumed
}

func (w *watching) reset() {
	w.bytes.Store(0)
	w.all.Store(0)
	w.resumed.Store(0)
}

// watches measures what capture reads of records while only other ConfigMaps change, side by side with another build of it.
func (b *bench) watches(ctx context.Context) error {
	load, err := b.AddRecords(ctx, bed.Names("node", b.nodes))
	if err != nil {
		return err
	}
	b.done("records written", load)
	all := []*watching{{name: "this build"}}
	if err := b.watchThrough(ctx, all[0], ""); err != nil {
		return err
	}
	if b.other != "" {
		all = append(all, &watching{name: "the other build"})
		b.Run(b.other)
		if err := b.watchThrough(ctx, all[1], "-other"); err != nil {
			return err
		}
	}
	if err := b.recordsAtRest(ctx, all); err != nil {
		return err
	}
	table := measure.NewTable(b.out, fmt.Sprintf("Watches: %d records, %d changes a second of 20 other ConfigMaps, for %s", b.nodes, b.changes, b.period),
		"capture", "all records read again", "watches resumed", "bytes read of ConfigMaps")
	for _, w := range all {
		w.reset()
	}
	if err := b.changeForeign(ctx); err != nil {
		return err
	}
	for _, w := range all {
		table.Row(w.name, w.all.Load(), w.resumed.Load(), w.bytes.Load())
	}
	table.Flush()
	return nil
}

// watchThrough starts a capture that reaches the API server through a proxy of its own, which counts.
func (b *bench) watchThrough(ctx context.Context, w *watching, suffix string) error {
	counting, err := b.Through()
	if err != nil {
		return err
	}
	records := proxy.Reads("configmaps")
	resumes := func(r *http.Request) bool { return records(r) && !proxy.ReadsAll("configmaps")(r) }
	counting.Break(proxy.All(
		proxy.Count(records, &w.bytes),
		proxy.Report(proxy.ReadsAll("configmaps"), func(*http.Request) { w.all.Add(1) }),
		proxy.Report(resumes, func(*http.Request) { w.resumed.Add(1) })))
	_, err = b.StartCapture(ctx, suffix)
	return err
}

// recordsAtRest waits until nothing is read of records for some seconds: capture first marks the Nodes that are gone.
func (b *bench) recordsAtRest(ctx context.Context, all []*watching) error {
	for quiet := 0; quiet < 10; {
		before := int64(0)
		for _, w := range all {
			before += w.bytes.Load()
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		after := int64(0)
		for _, w := range all {
			after += w.bytes.Load()
		}
		quiet++
		if after != before {
			quiet = 0
		}
	}
	return nil
}

// changeForeign changes ConfigMaps that are no records, ten in the namespace of the records and ten in another one.
func (b *bench) changeForeign(ctx context.Context) error {
	b.phase("%d changes of other ConfigMaps a second for %s", b.changes, b.period)
	namespaces := []string{harness.Namespace, metav1.NamespaceDefault}
	name := func(n int) string { return fmt.Sprintf("foreign-%d", n%10) }
	for n := range 20 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(n)}}
		if _, err := b.Admin.CoreV1().ConfigMaps(namespaces[n/10]).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make another ConfigMap: %w", err)
		}
	}
	_, err := b.pace(ctx, b.changes*int(b.period/time.Second), b.changes, func(ctx context.Context, number int) error {
		patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, number)
		_, err := b.Admin.CoreV1().ConfigMaps(namespaces[number/10%2]).Patch(ctx, name(number), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	return err
}
