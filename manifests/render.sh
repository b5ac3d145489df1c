#!/usr/bin/env bash
# Renders the static files from the chart into a folder; with --check it only compares them with those that are checked in. The third
# argument is the Kubernetes version that they are for.
set -euo pipefail
helm=$1 into=$2 kubernetes=${3:-1.36}
apis=(--kube-version "$kubernetes" --api-versions nodekeep.dev/v1alpha1/NodePolicy)
[[ $kubernetes < 1.36 ]] || apis+=(--api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy)
check=
if [[ $into == --check ]]; then
	check=yes into=$(mktemp -d)
	trap 'rm -r "$into"' EXIT
else
	into=$(realpath "$into")
fi
cd "$(dirname "$0")"

render() {
	local file=$1 title=$2
	shift 2
	{
		echo "# $title"
		echo "# Rendered from manifests/chart by \`make manifests\`, for Kubernetes $kubernetes and later."
		"$helm" template nodekeep chart --namespace nodekeep-system --no-hooks "${apis[@]}" --set crd.create=false "$@"
	} >"$into/$file"
}

# The profiles of nodekeep-verify.yaml.
profiles='{"profiles": [{"name": "linux", "nodeSelector": "kubernetes.io/os=linux", "checks": [
	{"name": "dns", "dns": {"names": ["kubernetes.default.svc"], "servers": "each"}}, {"name": "api", "api": {}}]}]}'

# The profiles of complete.yaml: each kind of removal.
removals='{"profiles": [
	{"name": "claims", "nodeSelector": "a", "onFailure": "nodeClaim", "checks": [{"name": "api", "api": {}}]},
	{"name": "machines", "nodeSelector": "b", "onFailure": "machine", "checks": [{"name": "api", "api": {}}]},
	{"name": "nodes", "nodeSelector": "c", "onFailure": "node", "checks": [{"name": "api", "api": {}}]}]}'

render namespace.yaml "The namespace, with every record in it. Apply it first, and do not delete it: that deletes the records." \
	--set namespace.create=true --show-only templates/namespace.yaml
render crd.yaml "The kind NodePolicy. Apply it before nodekeep.yaml, and do not delete it: that deletes the policy." \
	--set crd.create=true --show-only templates/crd.yaml
render nodekeep.yaml "nodekeep with self-signed certificates, after namespace.yaml and crd.yaml: kubectl apply --server-side -f manifests/nodekeep.yaml"
render nodekeep-cert-manager.yaml "nodekeep with certificates by cert-manager, for the namespace of namespace.yaml: kubectl apply --server-side -f manifests/nodekeep-cert-manager.yaml" \
	--set certificates.mode=certManager
render nodekeep-inline.yaml "what differs with policy.labels.protected=inline: kubectl apply --server-side -f manifests/nodekeep-inline.yaml after nodekeep.yaml" \
	--set policy.labels.protected=inline \
	--show-only templates/policy.yaml --show-only templates/webhook-rbac.yaml --show-only templates/webhook-configurations.yaml
render nodekeep-verify.yaml "verification of Linux Nodes, by DNS and the API server: kubectl apply --server-side -f manifests/nodekeep-verify.yaml after nodekeep.yaml" \
	--set verify.enabled=true --set-json policy.verify="$profiles" \
	--show-only templates/verify-checks.yaml --show-only templates/verify-rbac.yaml --show-only templates/verify-guard.yaml --show-only templates/verify.yaml \
	--show-only templates/policy.yaml --show-only templates/capture.yaml --show-only templates/webhook.yaml \
	--show-only templates/flowschema.yaml --show-only templates/networkpolicy.yaml
render nodekeep-monitoring.yaml "what Prometheus reads by its operator: kubectl apply --server-side -f manifests/nodekeep-monitoring.yaml" \
	--set monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true \
	--show-only templates/podmonitor.yaml --show-only templates/prometheusrule.yaml
[[ $kubernetes < 1.36 ]] || render complete.yaml "What \`nodekeep doctor\` compares a cluster with: webhooks, policies, Deployments and rights with every option. Not for installing." \
	--set crd.create=true,policy.labels.protected=inline,metrics.secure=true,rules.devices=true,rules.features=true,verify.enabled=true --set-json policy.verify="$removals" \
	--show-only templates/access.yaml --show-only templates/capture-rbac.yaml --show-only templates/webhook-rbac.yaml --show-only templates/metrics-rbac.yaml \
	--show-only templates/capture.yaml --show-only templates/webhook.yaml --show-only templates/webhook-configurations.yaml \
	--show-only templates/gate.yaml --show-only templates/guards.yaml --show-only templates/governance.yaml --show-only templates/gatekey.yaml --show-only templates/policy.yaml --show-only templates/crd.yaml \
	--show-only templates/verify-checks.yaml --show-only templates/verify-rbac.yaml --show-only templates/verify-guard.yaml --show-only templates/verify.yaml

# Policies for the files of an API server: those of the gate and the guards.
[[ $kubernetes < 1.36 ]] || "$helm" template nodekeep chart --namespace nodekeep-system "${apis[@]}" \
	--show-only templates/gate.yaml --show-only templates/guards.yaml | static-admission/render.sh "$into/static-admission"

if [[ $check ]]; then
	for file in namespace.yaml crd.yaml nodekeep.yaml nodekeep-cert-manager.yaml nodekeep-inline.yaml nodekeep-verify.yaml nodekeep-monitoring.yaml complete.yaml \
		static-admission/{mutating,validating}/nodekeep.yaml; do
		diff -u "$file" "$into/$file" || drift=yes
	done
	if [[ ${drift:-} ]]; then
		echo "manifests: what the chart renders is not what is checked in; run make manifests" >&2
		exit 1
	fi
fi
