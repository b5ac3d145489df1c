package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// callsAtOnce is how many requests of an attacker are in flight.
const callsAtOnce = 4

// dice are the choices of an attacker, which a seed repeats.
type dice struct{ *rand.Rand }

func pick[T any](d dice, item ...T) T { return item[d.IntN(len(item))] }

// text returns one of a few short texts, so that requests meet what others have written.
func (d dice) text() string { return fmt.Sprint("t", d.IntN(20)) }

// move is a kind of request, of which each is another one.
type move struct {
	title string
	make  func(d dice) request
}

// attacker is a client with an identity of its own.
type attacker struct {
	name  string
	moves []move

	host   string
	client *http.Client

	passed, refused, failed atomic.Int64
}

// all returns the attackers, the server of inventories aside. at is where the webhook answers.
func (w *world) all(stamp string) []*attacker {
	return []*attacker{
		{name: "a kubelet", moves: w.kubeletsMoves()},
		{name: "a Pod without identity", moves: w.podsMoves(stamp)},
		{name: "a tenant with Pods in all namespaces", moves: w.tenantsMoves()},
		{name: "a client that may label Nodes", moves: w.editorsMoves()},
	}
}

// attackWith gives an attacker its identity.
func (a *attacker) attackWith(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	client.Timeout = harness.Settles
	a.host, a.client = config.Host, client
}

// attack sends so many requests, of each kind as many as of another one, with random contents.
func (a *attacker) attack(ctx context.Context, seed uint64, count int) {
	var all sync.WaitGroup
	for caller := range callsAtOnce {
		all.Go(func() {
			d := dice{rand.New(rand.NewPCG(seed, uint64(caller)))}
			for n := caller; n < count && ctx.Err() == nil; n += callsAtOnce {
				status, _, err := a.moves[n/callsAtOnce%len(a.moves)].make(d).send(ctx, a.client, a.host)
				a.count(status, err)
			}
		})
	}
	all.Wait()
}

func (a *attacker) count(status int, err error) {
	switch {
	case err != nil || status >= http.StatusInternalServerError:
		a.failed.Add(1)
	case status >= http.StatusBadRequest:
		a.refused.Add(1)
	default:
		a.passed.Add(1)
	}
}

// foreign returns the name of a Node that is not the attacker's: it lives, waits, is deleted, or never was.
func (d dice) foreign() string {
	return pick(d, pick(d, harness.Names("open", open)...), pick(d, harness.Names("waits", waits)...), pick(d, harness.Names("deleted", deleted)...), "never-"+d.text())
}

// annotations forge what nodekeep says of a Node.
func (d dice) annotations() object {
	key, value := d.text(), `{"team":{"value":"b","rule":"a"}}`
	return pick(d,
		object{"nodekeep.dev/restored": fmt.Sprintf(`{"given":{%q:{"value":"a"},"team":{"value":"a"},%q:{"value":""}}}`, key, harness.Worker)},
		object{"nodekeep.dev/taints": `["dedicated:NoExecute","` + key + `:NoSchedule"]`},
		object{"nodekeep.dev/labels": value},
		object{verify.Annotation: verify.Progress{Round: 1, Last: &verify.Last{Result: verify.VerdictPassed}}.String()},
		object{verify.RequestAnnotation: key},
		object{"nodekeep.dev/" + key: key},
		object{"nodekeep.dev/restored": nil, "nodekeep.dev/taints": nil, verify.Annotation: nil},
		object{"example.com/note": strings.Repeat(key, 1+d.IntN(2000))},
	)
}

// labels returns such as kubelets and clients may set, and such as they may not.
func (d dice) labels() object {
	return object{pick(d, "team", "example.com/"+d.text(), "example.com/denied", "example.com/audited", "example.com/rack-0", "accelerator", harness.Worker, "node-role.kubernetes.io/"+d.text(),
		"node-restriction.kubernetes.io/"+d.text(), "topology.kubernetes.io/zone", "nodekeep.dev/verified", "remove"): pick[any](d, "b", "true", "node", d.text(), nil, strings.Repeat("x", 64))}
}

// taints returns a list of some that Nodes here have, and others.
func (d dice) taints() (all []object) {
	for range d.IntN(4) {
		all = append(all, object{"key": pick(d, "nodekeep.dev/restoring", verify.Taint, "dedicated", "accelerator", d.text()), "value": pick(d, "", "a", "recheck", d.text()), "effect": pick(d, "NoSchedule", "NoExecute")})
	}
	return all
}

// owners returns entries of managedFields that say whose each label is.
func (d dice) owners() []object {
	if d.IntN(3) == 0 {
		return []object{{}} // emptied
	}
	return []object{{"manager": pick(d, "kubectl-label", "nodekeep-capture", "nodekeep-webhook", d.text()), "operation": pick(d, "Update", "Apply"), "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
		"fieldsV1": object{"f:metadata": object{"f:labels": object{"f:team": object{}, "f:" + harness.Worker: object{}}, "f:annotations": object{"f:nodekeep.dev/restored": object{}}}, "f:spec": object{"f:taints": object{}}}}}
}

// machine returns an identity of another machine, or one that no machine has.
func (d dice) machine() string {
	return pick(d, "system-"+d.foreign(), "a\x00b\x00gold", "\x1b[2J", "", strings.Repeat("m", 2000), d.text())
}

func (d dice) node(name string) object {
	return object{"apiVersion": "v1", "kind": "Node",
		"metadata": object{"name": name, "labels": d.labels(), "annotations": d.annotations()},
		"spec":     object{"taints": d.taints(), "providerID": "box://" + d.machine()},
		"status":   object{"nodeInfo": object{"systemUUID": d.machine(), "machineID": d.machine(), "architecture": "amd64", "operatingSystem": "linux"}, "capacity": object{"cpu": "900"}}}
}

func (d dice) asKind(r request) request {
	if r.kind = pick(d, "", "application/strategic-merge-patch+json"); d.IntN(4) == 0 {
		r.kind, r.path = "application/apply-patch+yaml", r.path+"?force=true&fieldManager="+pick(d, "kubelet", "kubectl-label", "nodekeep-capture")
		r.body = withField(withField(r.body.(object), "apiVersion", "v1"), "kind", "Node")
	}
	return r
}

func nodePath(name string) string { return nodes + "/" + name }

// kubeletsMoves returns those of a client with the credentials of one kubelet.
func (w *world) kubeletsMoves() []move {
	current := nodePath(evil)
	onNode := func(path string, content func(d dice) object) func(d dice) request {
		return func(d dice) request { return d.asKind(patch(path, content(d))) }
	}
	metadata := func(key string, value any) object { return object{"metadata": object{key: value}} }
	mirror := func(d dice) request {
		namespace, name := pick(d, "kube-system", verify.Namespace, "shop", "default"), "mirror-"+d.text()
		item := plain(namespace, name)
		item["metadata"] = object{"name": name, "namespace": namespace, "annotations": object{"kubernetes.io/config.mirror": "a"}, "labels": object{"k8s-app": "kube-dns", "app": "shop"},
			"ownerReferences": []object{{"apiVersion": "v1", "kind": "Node", "name": evil, "uid": w.evilUID, "controller": true}}}
		item["spec"].(object)["nodeName"] = evil
		return post(core+"/namespaces/"+namespace+"/pods", item)
	}
	return []move{
		{"heartbeats", func(d dice) request {
			return patch(current+"/status", object{"status": object{"nodeInfo": object{"bootID": d.text()}}})
		}},
		{"annotations of nodekeep on its Node", onNode(current, func(d dice) object { return metadata("annotations", d.annotations()) })},
		{"the same through the status", onNode(current+"/status", func(d dice) object { return metadata("annotations", d.annotations()) })},
		{"its Node as a whole, with labels, taints, annotations and another machine", func(d dice) request { return request{method: http.MethodPut, path: current, body: d.node(evil)} }},
		{"labels of its Node, protected and governed ones among them", onNode(current, func(d dice) object { return metadata("labels", d.labels()) })},
		{"other taints, and none", onNode(current, func(d dice) object { return object{"spec": object{"taints": d.taints()}} })},
		{"forged and emptied managedFields", onNode(current, func(d dice) object {
			return object{"metadata": object{"managedFields": d.owners(), "labels": d.labels()}}
		})},
		{"the identity of another machine", onNode(current+"/status", func(d dice) object {
			return object{"status": object{"nodeInfo": object{"systemUUID": d.machine(), "machineID": d.machine()}}}
		})},
		{"resources whose names are hostile", onNode(current+"/status", func(d dice) object {
			return object{"status": object{"capacity": object{"example.com/" + d.text(): "1", "example.com/=cmd;" + d.text(): "1", "nvidia.com/gpu": "8"}}}
		})},
		{"bytes that are not UTF-8", func(d dice) request {
			return patch(current, []byte("{\"metadata\":{\"annotations\":{\"example.com/note\":\"\xff\xfe"+d.text()+"\",\"nodekeep.dev/restored\":\"\xc3\x28\"}}}"))
		}},
		{"the deletion of its Node, and of others", func(d dice) request { return remove(nodePath(pick(d, evil, d.foreign())))[0] }},
		{"the registration of its Node again, and of others", func(d dice) request { return post(nodes, d.node(pick(d, evil, d.foreign()))) }},
		{"labels, taints and annotations of other Nodes", func(d dice) request {
			return d.asKind(patch(nodePath(d.foreign())+pick(d, "", "/status"), object{"metadata": object{"labels": d.labels(), "annotations": d.annotations()}, "spec": object{"taints": d.taints()}}))
		}},
		{"mirror Pods, in place of the DNS Service among others", mirror},
		{"worker Pods", func(d dice) request { return post(checks+"/pods", pod(verify.Namespace, "check-"+d.text())) }},
		{"reports of worker Pods, its own and those of others", func(d dice) request {
			r := patch(checks+"/pods/"+w.worker(d)+"/status", ended(d))
			r.kind = "application/strategic-merge-patch+json"
			return r
		}},
		{"the deletion of worker Pods, its own and those of others", func(d dice) request { return remove(checks + "/pods/" + w.worker(d))[0] }},
		{"records, reports and the ledger", func(d dice) request { return w.configMaps(d, pick(d, release, checks)) }},
		{"the policy", func(d dice) request {
			spec := object{"spec": object{"labels": object{"ignore": []string{"*"}}}}
			return pick(d, patch(policies+"/"+harness.PolicyName, spec), post(policies, withField(named("nodekeep.dev/v1alpha1", "NodePolicy", harness.PolicyName), "spec", spec["spec"])), remove(policies + "/" + harness.PolicyName)[0])
		}},
		{"Secrets and tokens", func(d dice) request {
			return pick(d, get(release + "/secrets/nodekeep-webhook-tls")[0], post(release+"/serviceaccounts/"+pick(d, "nodekeep-webhook", "nodekeep-capture", "nodekeep-verify")+"/token",
				object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}))
		}},
		{"Events that say that a Node failed", func(d dice) request {
			return post(core+"/namespaces/default/events", withField(event("default", fmt.Sprint("forged-", d.IntN(500))), "reason", pick(d, "RemovalFailed", "SharedFailure", "RecordReset")))
		}},
		{"NodeClaims and Machines", w.owningObjects},
		{"Leases of leaders, and of other kubelets", func(d dice) request {
			return pick(d, patch(leases+"/nodekeep-"+pick(d, "capture", "verify"), object{"spec": object{"holderIdentity": d.text()}}), lease(d.foreign()), lease(evil))
		}},
	}
}

// tenantsMoves returns those of a client with all rights on Pods in all namespaces, and on ConfigMaps everywhere but in the release namespace.
func (w *world) tenantsMoves() []move {
	strategic := func(r request) request {
		r.kind = "application/strategic-merge-patch+json"
		return r
	}
	workers := func(content func(d dice) object) func(d dice) request {
		return func(d dice) request { return strategic(patch(checks+"/pods/"+w.worker(d), content(d))) }
	}
	return []move{
		{"Pods in every namespace, on any Node", func(d dice) request {
			namespace, name := pick(d, "default", "kube-system", "shop"), "tenant-"+d.text()
			item := plain(namespace, name)
			item["metadata"].(object)["labels"] = object{"k8s-app": "kube-dns", "app": "shop"}
			item["spec"] = withField(item["spec"].(object), "nodeName", pick(d, "", d.foreign()))
			item["spec"].(object)["tolerations"] = []object{{"operator": "Exists"}}
			return post(core+"/namespaces/"+namespace+"/pods", item)
		}},
		{"their deletion", func(d dice) request {
			return remove(core + "/namespaces/" + pick(d, "default", "kube-system", "shop") + "/pods/tenant-" + d.text() + "?gracePeriodSeconds=0")[0]
		}},
		{"worker Pods of its own", func(d dice) request {
			return post(checks+"/pods", withField(pod(verify.Namespace, pick(d, "check-", verify.ControlPrefix)+d.text()), "status", ended(d)["status"]))
		}},
		{"reports of worker Pods", func(d dice) request { return strategic(patch(checks+"/pods/"+w.worker(d)+"/status", ended(d))) }},
		{"another image, deadline or task of worker Pods", workers(func(d dice) object {
			return pick(d, object{"spec": object{"activeDeadlineSeconds": 1}}, object{"spec": object{"containers": []object{{"name": verify.Worker, "image": d.text()}}}})
		})},
		{"finalizers, owners and labels of worker Pods", workers(func(d dice) object {
			return object{"metadata": pick(d, object{"finalizers": []string{"a.example.com/" + d.text()}}, object{"labels": object{"a": d.text()}},
				object{"ownerReferences": []object{{"apiVersion": "v1", "kind": "Node", "name": d.foreign(), "uid": d.text()}}})}
		})},
		{"commands in worker Pods, and further containers", func(d dice) request {
			return pick(d, post(checks+"/pods/"+w.worker(d)+"/exec?command=sh&container="+verify.Worker, nil),
				strategic(patch(checks+"/pods/"+w.worker(d)+"/ephemeralcontainers", object{"spec": object{"ephemeralContainers": []object{withField(restricted(), "name", d.text())}}})))
		}},
		{"the deletion of worker Pods, one or all", func(d dice) request {
			if d.IntN(20) == 0 {
				return remove(checks + "/pods")[0]
			}
			return remove(checks + "/pods/" + w.worker(d) + pick(d, "", "?gracePeriodSeconds=0"))[0]
		}},
		{"forged records in other namespaces", func(d dice) request {
			return post(core+"/namespaces/default/configmaps", withField(withField(named("v1", "ConfigMap", ""), "metadata", object{"name": "node." + d.foreign(), "labels": object{"nodekeep.dev/record": "true"}}),
				"data", object{"record.json": `{"node":"` + evil + `"}`}))
		}},
		{"records and the policy", func(d dice) request { return w.configMaps(d, release) }},
		{"reports of failed checks, and the ledger of removals", func(d dice) request { return w.configMaps(d, checks) }},
		{"Nodes", func(d dice) request {
			return pick(d, patch(nodePath(d.foreign()), object{"spec": object{"taints": d.taints()}}), remove(nodePath(d.foreign()))[0], post(nodes, d.node(d.foreign())))
		}},
	}
}

// editorsMoves returns those of a client that may change Nodes, in order to label its own ones. On others it tries what governance denies.
func (w *world) editorsMoves() []move {
	current := func(d dice) string { return nodePath(pick(d, harness.Names("edited", edited)...)) }
	denied := func(d dice, labels object) object {
		return object{"metadata": object{"labels": withField(labels, "example.com/denied", pick(d, "b", "b-"+d.text()))}}
	}
	junk := func(d dice, count int) object {
		labels := object{}
		for n := range count {
			labels[fmt.Sprintf("junk.example.com/%d-%s", n, strings.Repeat("x", d.IntN(40)))] = strings.Repeat("y", d.IntN(63))
		}
		return labels
	}
	return []move{
		{"labels of its own Nodes, with every kind of key and value", func(d dice) request {
			return d.asKind(patch(current(d), object{"metadata": object{"labels": d.labels()}}))
		}},
		{"the same key, again and again", func(d dice) request {
			return patch(current(d), object{"metadata": object{"labels": object{"example.com/again": fmt.Sprint(d.Uint32())}}})
		}},
		{"a value that governance denies, on any Node", func(d dice) request {
			return d.asKind(patch(nodePath(pick(d, harness.Names("open", open)...)), denied(d, object{})))
		}},
		{"the same among hundreds of labels", func(d dice) request {
			return patch(nodePath(pick(d, harness.Names("open", open)...)), denied(d, junk(d, 200+d.IntN(400))))
		}},
		{"the same on its own Nodes", func(d dice) request { return patch(current(d), denied(d, junk(d, d.IntN(3)))) }},
		{"the deletion and the registration of Nodes", func(d dice) request {
			return pick(d, remove(nodePath(d.foreign()))[0], post(nodes, d.node(d.foreign())))
		}},
		{"records, reports and the ledger", func(d dice) request { return w.configMaps(d, pick(d, release, checks)) }},
		{"the policy", func(d dice) request {
			spec := object{"spec": object{"labels": object{"ignore": []string{"*"}}}}
			return pick(d, patch(policies+"/"+harness.PolicyName, spec), post(policies, withField(named("nodekeep.dev/v1alpha1", "NodePolicy", harness.PolicyName), "spec", spec["spec"])), remove(policies + "/" + harness.PolicyName)[0])
		}},
		{"worker Pods", func(d dice) request {
			return pick(d, post(checks+"/pods", pod(verify.Namespace, "check-"+d.text())), remove(checks + "/pods/" + w.worker(d))[0])
		}},
		{"NodeClaims and Machines", w.owningObjects},
	}
}

// worker returns the name of a worker Pod that lives, if one does.
func (w *world) worker(d dice) string {
	if part := w.workers.Load(); part != nil && len(*part) > 0 {
		return pick(d, *part...)
	}
	return "check-none"
}

// ended returns the status of a worker that passed, failed, or is lost.
func ended(d dice) object {
	result, code := pick(d, verify.Passed, verify.Failed), d.IntN(2)
	report := verify.Report{Results: []verify.Result{{Check: pick(d, "api", "forged"), Outcome: result, Required: true, Millis: 1}}}
	return object{"status": object{"phase": pick(d, "Succeeded", "Failed", "Running"), "containerStatuses": []object{{"name": verify.Worker, "image": "a", "imageID": "",
		"state": object{"terminated": object{"exitCode": code, "message": report.Encode(verify.MaxReport)}}}}}}
}

// configMaps returns a request for the ConfigMaps that nodekeep decides by.
func (w *world) configMaps(d dice, in string) request {
	name := "check." + d.foreign()
	if in == release {
		name = pick(d, "node."+d.foreign(), "nodekeep-gate", "nodekeep-accepted", "nodekeep-inventory", "node."+evil)
	} else if d.IntN(2) == 0 {
		name = verify.LedgerMap
	}
	path, content := in+"/configmaps", object{"data": object{"record.json": "{}", "policy.json": "{}", "removals": "{}"}}
	return pick(d, post(path, withField(named("v1", "ConfigMap", name), "data", content["data"])), patch(path+"/"+name, content), remove(path + "/" + name)[0],
		patch(path+"/"+name, object{"metadata": object{"labels": object{"nodekeep.dev/record": nil}, "annotations": d.annotations()}}))
}

// owningObjects returns a request for the objects that own the machines of Nodes.
func (w *world) owningObjects(d dice) request {
	name := pick(d, nodeClaims+"/waits-000", machines+"/waits-001")
	return pick(d, remove(name)[0], patch(name, object{"metadata": object{"annotations": object{"cluster.x-k8s.io/remediate-machine": ""}}}), patch(name+"/status", object{"status": object{"nodeName": evil}}))
}

// tenant returns a client with all rights on Pods. On ConfigMaps it has them in the namespace of the checks and in another one.
func tenant(t *testing.T) *rest.Config {
	t.Helper()
	item := granted(t, "standing-tenant", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "pods/attach", "pods/binding", "pods/ephemeralcontainers", "pods/eviction", "pods/exec", "pods/status"}, Verbs: []string{"*"}})
	for _, namespace := range []string{"default", verify.Namespace} {
		nodekeep.MustKubectl(t, "-n", namespace, "create", "role", item.name, "--verb=*", "--resource=configmaps")
		nodekeep.MustKubectl(t, "-n", namespace, "create", "rolebinding", item.name, "--role="+item.name, "--serviceaccount="+item.namespace+":"+item.name)
	}
	return configOf(t, item)
}

// shows asserts that an attacker was not stopped by something else than what is tested.
func (a *attacker) shows(t *testing.T, count int) {
	t.Helper()
	assert.Equal(t, int64(count), a.passed.Load()+a.refused.Load()+a.failed.Load(), "%s: requests", a.name)
	assert.Positive(t, a.passed.Load(), "%s: what it may do is done", a.name)
	assert.Positive(t, a.refused.Load(), "%s: what it may not do is refused", a.name)
}
