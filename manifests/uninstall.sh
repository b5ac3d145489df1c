#!/usr/bin/env bash
# Removes nodekeep in the order that leaves no Node behind the gate: gating stops first, then gates that are still on are
# lifted, then the rest goes. The records stay, with their namespace; the last line says how to remove them too.
# Uses kubectl with whatever cluster it points at. GATE_KEY names the gate if it is not the default.
set -euo pipefail
cd "$(dirname "$0")"
gate=${GATE_KEY:-nodekeep.dev/restoring}

kubectl delete --ignore-not-found -f 60-gate-policy.yaml
kubectl delete --ignore-not-found -f 50-webhook-configuration.yaml
gated=$(kubectl get nodes -o go-template='{{range .items}}{{$name := .metadata.name}}{{range .spec.taints}}{{if eq .key "'"$gate"'"}}{{$name}}{{"\n"}}{{end}}{{end}}{{end}}' | sort -u)
for node in $gated; do
	kubectl taint node "$node" "$gate-"
done
kubectl delete --ignore-not-found -f 41-capture.yaml -f 40-webhook.yaml -f 30-secret.yaml -f 20-policy.yaml -f inline/self-test-rbac.yaml -f 11-capture-rbac.yaml -f 10-webhook-rbac.yaml
echo "nodekeep is removed. What it remembered is still there; to forget it: kubectl delete namespace nodekeep-system"
