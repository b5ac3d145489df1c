package doctor

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
)

// Objects, as kubectl takes them.
const (
	mutatingObject    = "mutatingwebhookconfiguration/" + WebhookConfigurationName
	validatingObject  = "validatingwebhookconfiguration/" + WebhookConfigurationName
	gatePolicyObject  = "mutatingadmissionpolicy/" + GateObjectName
	gateBindingObject = "mutatingadmissionpolicybinding/" + GateObjectName
	serviceObject     = "service/" + WebhookServiceName
	webhookObject     = "deployment/" + WebhookDeployment
	captureObject     = "deployment/" + CaptureDeployment
	verifyObject      = "deployment/" + VerifyDeployment
	gateKeyObject     = "configmap/" + GateObjectName
	policyObject      = "nodepolicy/" + PolicyName
	crdObject         = "customresourcedefinition/" + PolicyCRD
	acceptedObject    = "configmap/" + store.AcceptedConfigMap
	metricsObject     = "clusterrolebinding/nodekeep-metrics"

	verifyMetricsObject = "clusterrolebinding/nodekeep-verify-metrics"
)

// Consequences of objects that do not do their work.
const (
	unrestoredEffect     = "no label is restored in the CREATE of a Node; Nodes wait behind the gate until capture has completed them"
	deletionsUnobserved  = "an edit is lost if its Node is deleted before capture has observed it"
	serviceDownEffect    = "the API server calls no webhook, and Nodes wait behind the gate until capture has completed them"
	webhookDownEffect    = "Nodes wait behind the gate until capture has completed them"
	unrecordedEffect     = "edits are not recorded, and Nodes that wait behind the gate wait on"
	ungatedEffect        = "a Node that registers while the webhook is down comes up without its labels and takes workloads"
	annotationsForgeable = "a kubelet can forge nodekeep's annotations on its Node, so nodekeep reads them with care: " +
		"a removal of a protected label or taint that capture did not observe itself does not count, and the label or taint is restored"
	policyFrozen       = "the policy cannot be changed; what was accepted last stays in force"
	ungovernedEffect   = "the API server does not go by the section governance of the policy"
	policyNotValidated = "the API server stores a NodePolicy that nodekeep cannot use, and what was accepted last stays in force"
)

// expectation is an object that a check compares with the shipped one.
type expectation struct {
	check       string
	object      string // as kubectl takes it
	severity    Severity
	consequence string // what follows if the object does not exist, or does not do its work
}

// expectations returns one for each object. Objects of several kinds with one name share a row.
func expectations() (all []expectation) {
	const (
		account     = "serviceaccount,role,rolebinding,clusterrole,clusterrolebinding/" // the account, and the objects of RBAC with the same name
		granted     = "role,rolebinding/"
		confined    = "validatingadmissionpolicy,validatingadmissionpolicybinding/"
		switchedOff = "the gate is switched off: " + ungatedEffect
		unchecked   = "no Pod that checks a Node starts: " + unverifiedEffect
		lacksRights = "the controller lacks rights: "
	)
	for _, row := range []expectation{
		{checkRestore, mutatingObject, Error, unrestoredEffect},
		{checkDeletion, validatingObject, Warning, deletionsUnobserved},
		{checkEndpoints, serviceObject, Error, serviceDownEffect},
		{checkGate, gatePolicyObject, Error, ungatedEffect},
		{checkGate, gateBindingObject, Error, "the policy does nothing: " + ungatedEffect},
		{checkGate, granted + GateObjectName, Error, switchedOff},
		{checkGuards, confined + guard.GuardName, Warning, annotationsForgeable},
		{checkGuards, "mutatingadmissionpolicy,mutatingadmissionpolicybinding/" + guard.StripName, Warning, annotationsForgeable},
		{checkGuards, confined + guard.SelfTestName, Error, "a thief of the webhook's token can act as a kubelet"},
		{checkGuards, confined + "nodekeep-records", Warning, "a thief of the webhook's or capture's token can change the policy"},
		{checkWebhook, webhookObject, Error, webhookDownEffect},
		{checkCapture, captureObject, Error, unrecordedEffect},
		{checkGate, gateKeyObject, Warning, "commands take " + string(policy.DefaultGate) + " for the key of the gate's taint"},
		{checkPolicy, crdObject, Warning, policyFrozen},
		{checkPolicy, validatingObject, Warning, policyNotValidated},
		{checkGovernance, confined + governance.DenyPolicy, Warning, ungovernedEffect},
		{checkGovernance, confined + governance.WarnPolicy, Warning, ungovernedEffect},
		{checkGovernance, confined + governance.AuditPolicy, Warning, ungovernedEffect},
		{checkRights, granted + "nodekeep-capture-events", Warning, "capture writes no Events about Nodes"},
		{checkRights, metricsObject, Warning, "nobody can read the metrics"},
		{checkRights, account + WebhookDeployment, Error, "the webhook lacks rights: " + webhookDownEffect},
		{checkRights, account + CaptureDeployment, Error, "capture lacks rights: " + unrecordedEffect},
		{checkVerification, verifyObject, Error, unverifiedEffect},
		{checkVerification, "serviceaccount,priorityclass/" + verify.Account, Error, unchecked},
		{checkVerification, granted + checksRole, Error, unchecked},
		{checkVerification, granted + "nodekeep-verify-events", Warning, "it writes no Events about Nodes"},
		{checkVerification, verifyMetricsObject, Warning, "nobody can read its metrics"},
		{checkVerification, confined + VerifyDeployment, Warning, "a thief of its token can change all of a Node"},
		{checkVerification, confined + "nodekeep-checks", Warning, "clients that may change Pods in its namespace can read and change what the checks of a Node find"},
		{checkVerification, "clusterrole,clusterrolebinding/" + removalName, Error, lacksRights + unremovedEffect},
		{checkVerification, confined + removalName, Warning, "a thief of the controller's token can remove Nodes that take workloads"},
		{checkVerification, account + VerifyDeployment, Error, lacksRights + unverifiedEffect},
		{checkVerification, "clusterrole,clusterrolebinding/" + LookupRole, Error, lacksRights + unverifiedEffect},
		{checkVerification, granted + LookupRole, Error, "checks of profiles that look there do not pass, and " + unverifiedEffect},
	} {
		kinds, name, _ := strings.Cut(row.object, "/")
		for kind := range strings.SplitSeq(kinds, ",") {
			row.object = kind + "/" + name
			all = append(all, row)
		}
	}
	return all
}

// Object is an object of the manifests, and what the cluster has of it.
type Object struct {
	Shipped unstructured.Unstructured
	Live    Reading[*unstructured.Unstructured]
}

// Name returns the object as kubectl takes it.
func (o Object) Name() string { return manifests.Name(o.Shipped) }

// Shipped returns the objects that checks compare, for an installation in a namespace.
func Shipped(namespace string) (objects []Object, err error) {
	expected := sets.New[string]()
	for _, e := range expectations() {
		expected.Insert(e.object)
	}
	shipped, err := manifests.Objects(namespace, expected.Has)
	for _, object := range shipped {
		objects = append(objects, Object{Shipped: object})
	}
	return objects, err
}

// objects returns what is known of an object of the manifests. Only a [LookupRole] is in several namespaces.
func (s Installation) objects(name string) (all []Object) {
	for _, object := range s.ComparedObjects {
		if object.Name() == name {
			all = append(all, object)
		}
	}
	return all
}

// object returns what is known of the first of them; nothing where there is none.
func (s Installation) object(name string) Object { return append(s.objects(name), Object{})[0] }

// decode returns an object of the manifests as its Go type.
func decode[T any](s Installation, name string) Reading[*T] {
	found := s.object(name).Live
	if !found.Found {
		return Reading[*T]{Absent: found.Absent, Unknown: found.Unknown}
	}
	value := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Value.Object, value); err != nil {
		return NotKnown[*T](Unknown{Reason: err.Error(), Remedy: newRemedy("Use the kubectl plugin of the installed version.")})
	}
	return Found(value)
}

func (s Installation) webhookDeployment() Reading[*appsv1.Deployment] {
	return decode[appsv1.Deployment](s, webhookObject)
}
func (s Installation) captureDeployment() Reading[*appsv1.Deployment] {
	return decode[appsv1.Deployment](s, captureObject)
}

// isNeeded reports whether this installation needs the object: some belong to options of the chart.
func (s Installation) isNeeded(object string) bool {
	switch {
	case object == metricsObject:
		return flagIsOn(s.webhookDeployment(), "metrics-secure") || flagIsOn(s.captureDeployment(), "metrics-secure")
	case object == verifyMetricsObject:
		return flagIsOn(s.verifyDeployment(), "metrics-secure")
	case strings.HasSuffix(object, "/"+removalName):
		return s.Removes()
	case strings.HasSuffix(object, "/"+LookupRole):
		return slices.ContainsFunc(s.LookupRoles(), func(lookup Object) bool { return lookup.Name() == object })
	case strings.HasPrefix(object, "mutatingadmissionpolicy"):
		return !s.lacksMutatingPolicies()
	}
	return true
}

// lacksMutatingPolicies reports whether the API server is known to have no MutatingAdmissionPolicies.
func (s Installation) lacksMutatingPolicies() bool {
	return s.MutatingPoliciesServed.Found && !s.MutatingPoliciesServed.Value
}

// compare adds to the answer of a check in which ways its objects are not as shipped.
func (s Installation) compare(a *answer, check string) {
	for _, expected := range expectations() {
		if expected.check != check || !s.isNeeded(expected.object) {
			continue
		}
		objects := s.objects(expected.object)
		if len(objects) == 0 {
			objects = []Object{{}} // it was not looked at
		}
		for _, object := range objects {
			s.compareObject(a, expected, object)
		}
	}
}

func (s Installation) compareObject(a *answer, expected expectation, object Object) {
	find := func(e expectation, remedy Remedy, message string) {
		a.add(e.severity, e.object, remedy, "%s%s: %s", object.namespaceText(), message, e.consequence)
	}
	addUnknown(a, expected.object, object.Live)
	if object.Live.Absent {
		find(expected, expected.reinstallRemedy(s), "it does not exist")
	}
	if !object.Live.Found {
		return
	}
	for _, lacking := range s.lackingRights(object) {
		harmed := expected
		if lacking.severity != "" {
			harmed.severity, harmed.consequence = lacking.severity, lacking.leadsTo
		}
		find(harmed, expected.reapplyRemedy(s), "it does not grant "+strings.Join(lacking.rights, ", "))
	}
	for _, difference := range s.differences(object) {
		switch {
		case !expected.covers(difference):
		case difference.Path == webhookPath(deletionHook): // an option of the chart
			find(expected, s.omittedHookRemedy(), "it has no webhook "+deletionHook)
		default:
			find(expected.withDifference(difference), s.fieldRemedy(object, difference, expected.reapplyRemedy(s)), difference.String())
		}
	}
}

// webhookPath returns the path of a webhook in a configuration.
func webhookPath(hook string) string { return "webhooks[" + hook + "]" }

// covers reports whether a difference belongs to the check. The entries of one configuration belong to two checks.
func (e expectation) covers(d manifests.Difference) bool {
	return e.object != validatingObject || strings.HasPrefix(d.Path, webhookPath(policyHook)) == (e.check == checkPolicy)
}

// asShipped returns a check that only compares its objects with the shipped ones.
func asShipped(check, ok string) func(Installation) answer {
	return func(seen Installation) answer {
		a := answer{okText: ok}
		seen.compare(&a, check)
		return a
	}
}

// withDifference returns the expectation with what follows from this difference, where that is known.
func (e expectation) withDifference(d manifests.Difference) expectation {
	for _, known := range consequences() {
		if (known.object == "" || known.object == e.object) && strings.Contains(d.Path, known.field) {
			e.severity, e.consequence = known.severity, known.leadsTo
			break
		}
	}
	return e
}

// consequence is what follows from another value of a field.
type consequence struct {
	object   string // empty: any
	field    string // part of its path
	leadsTo  string
	severity Severity
}

func consequences() []consequence {
	const blocksJoin = "an error in the policy keeps Nodes from joining"
	return []consequence{
		{mutatingObject, "failurePolicy", "while the webhook is down, no Node can join and no kubelet can restart", Error},
		{validatingObject, webhookPath(policyHook) + ".failurePolicy", "while the webhook is down, no NodePolicy can be changed", Warning},
		{validatingObject, "failurePolicy", "while the webhook is down, no Node can be deleted", Error},
		{crdObject, "", "the API server may refuse or drop fields of the policy that nodekeep knows", Warning},
		{gatePolicyObject, "failurePolicy", blocksJoin, Error},
		{guard.StripObject, "failurePolicy", blocksJoin, Error},
		{guard.GuardObject, "failurePolicy", "an error in the policy keeps kubelets from updating their status", Error},
		{gatePolicyObject, "reinvocationPolicy", "the policy adds the gate again after the webhook has removed it", Error},
		{"", "timeoutSeconds", "a webhook that hangs holds up registrations, and with them the API server's share for Nodes' heartbeats", Warning},
		{mutatingObject, "objectSelector", "the API server does not call the webhook for some Nodes, and a kubelet chooses the labels of its Node", Warning},
		{mutatingObject, "matchConditions", "the API server does not call the webhook for some Nodes", Warning},
		{webhookObject, "args[--gate-key]", "Nodes do not come out from behind the gate", Error},
		{captureObject, "args[--gate-key]", "Nodes do not come out from behind the gate", Error},
		{"", "securityContext", "the process has other privileges than it needs", Warning},
	}
}

// omittedHookRemedy returns the remedy for the webhook that sees deletions.
func (s Installation) omittedHookRemedy() Remedy {
	remedy := s.reinstallRemedy()
	remedy.Text = "If it is left out on purpose, --skip " + checkDeletion + ". " + remedy.Text
	return remedy
}

// reinstallRemedy puts back the object of the expectation.
func (e expectation) reinstallRemedy(s Installation) Remedy {
	if e.check == checkVerification {
		return s.reinstallVerify()
	}
	return s.reinstallRemedy()
}

// reapplyRemedy is for the object of the expectation that was changed. With Helm, all of nodekeep is one release.
func (e expectation) reapplyRemedy(s Installation) Remedy {
	if _, ok := s.helmRelease(); !ok && e.check == checkVerification {
		return s.reinstallVerify()
	}
	return s.reapplyRemedy()
}

// Gate returns the key of the gate's taint, as its ConfigMap names it.
func (s Installation) Gate() policy.Gate {
	if found := decode[corev1.ConfigMap](s, gateKeyObject); found.Found && found.Value.Data[GateConfigMapKey] != "" {
		return policy.Gate(found.Value.Data[GateConfigMapKey])
	}
	return policy.DefaultGate
}
