package controller

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/verify"
)

// node is what memory holds of a Node. Of the many that have nothing to do with verification at the moment, that is little.
type node struct {
	name, uid, version string
	profile            string // that selects the Node
	taints             []corev1.Taint
	closed             bool         // it has a taint of verification, by the policy when the watch brought it
	rechecked          bool         // it was closed to check it again
	takes              bool         // ordinary Pods can run on it
	ready              bool         // as the Node says
	controls           bool         // a control Pod can run on it: it is verified, and Ready
	counts, absent     bool         // see [verify.Profiles.Absent]
	fails              bool         // see [verify.Profiles.Fails]
	passed             time.Time    // see [verify.Profiles.PassedAt]
	full               *verify.Node // nil: the plan has nothing to do
	reports            bool         // it is open, and its profile only reports: it is read live when look says so
	look               verify.Look
}

// GetObjectMeta is for the informer.
func (n *node) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: n.name, UID: types.UID(n.uid), ResourceVersion: n.version}
}

// nodeOf returns a Node as memory holds it. It never panics: a panic in an informer would end the process.
func nodeOf(object *corev1.Node, profiles verify.Profiles, gate string, now time.Time) (slim *node) {
	slim = &node{name: strings.Clone(object.Name), uid: strings.Clone(string(object.UID)), version: strings.Clone(object.ResourceVersion), taints: object.Spec.Taints}
	_ = contain.Call(func() error { // what panics here panics again when the Node is read live, and is reported there
		full := verify.NodeOf(object)
		slim.ready = full.Ready
		slim.takes = verify.TakesWorkloads(full.Ready, object.Spec.Unschedulable, object.Spec.Taints)
		slim.controls = profiles.Controls(&full) && !object.Spec.Unschedulable
		slim.counts, slim.absent = profiles.Absent(&full)
		profile, _ := profiles.Match(object.Labels)
		slim.profile, slim.rechecked = profile.Name, profiles.Rechecked(slim.taints)
		slim.fails, slim.passed = profiles.Fails(&full), profiles.PassedAt(&full)
		slim.closed = len(profiles.ClosingTaints(slim.taints)) > 0
		if slim.reports = !slim.closed && !full.Deleting && profile.ReportsOnly(); slim.reports {
			slim.look = profiles.LookAt(&full, gate, now)
			return nil
		}
		if slim.closed || verify.Plan(verify.Observed{Node: &full}, profiles, verify.Cluster{}, now).Operation != verify.DoNothing {
			slim.full = &full
		}
		return nil
	})
	return slim
}
