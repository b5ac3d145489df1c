{{/* Labels of everything; call with (dict "component" "webhook"). */}}
{{- define "nodekeep.labels" -}}
{{ include "nodekeep.selector" . }}
app.kubernetes.io/part-of: nodekeep
{{- end }}

{{/* What selects the pods of a component. It never changes: selectors of Deployments are immutable. */}}
{{- define "nodekeep.selector" -}}
app.kubernetes.io/name: nodekeep
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "nodekeep.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{/*
"true" where a policy that is a MutatingAdmissionPolicy is part of the release; call with (dict "root" $ "when" .Values.gate.policy).
Without a cluster to ask (helm template) Helm knows no kinds, not even Deployments; then the version decides.
*/}}
{{- define "nodekeep.mutating" -}}
{{- $has := .root.Capabilities.APIVersions -}}
{{- if eq .when "enabled" -}}
true
{{- else if eq .when "auto" -}}
{{- if $has.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
true
{{- else if and (not ($has.Has "apps/v1/Deployment")) (semverCompare ">=1.36.0-0" .root.Capabilities.KubeVersion.Version) -}}
true
{{- end -}}
{{- end -}}
{{- end }}

{{/* "true" where the gate policy is part of the release. */}}
{{- define "nodekeep.gated" -}}
{{- include "nodekeep.mutating" (dict "root" . "when" .Values.gate.policy) -}}
{{- end }}

{{/* "true" where the policy that strips annotations from a kubelet's CREATE is part of the release. */}}
{{- define "nodekeep.stripped" -}}
{{- if .Values.guards.enabled -}}
{{- include "nodekeep.mutating" (dict "root" . "when" .Values.guards.strip) -}}
{{- end -}}
{{- end }}

{{/* CEL: whether a request comes from a kubelet. Either sign is enough, as for the webhook. */}}
{{- define "nodekeep.fromKubelet" -}}
(has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups) || request.userInfo.username.startsWith('system:node:')
{{- end }}

{{/*
CEL: whether no emergency is declared (nodekeep emergency). It is declared by a right of capture's account that means nothing else. Where an account may
do everything, it has that right too, and no emergency is declared: then it also has the second right, which no emergency grants. What cannot be found out
is no emergency.
*/}}
{{- define "nodekeep.noEmergency" -}}
{{- $may := printf "authorizer.serviceAccount('%s', 'nodekeep-capture').group('nodekeep.dev').resource('closing').namespace('%s')" .Release.Namespace .Release.Namespace -}}
!{{ $may }}.check('stop').allowed() ||
{{ $may }}.check('continue').allowed()
{{- end }}

{{/*
"true" where an emergency is declared, as the commands see it: the RoleBinding gives the Role to capture's account, and the Role has the first right, without
the second one. Without a cluster to ask (helm template) there is none.
*/}}
{{- define "nodekeep.emergency" -}}
{{- $name := "nodekeep-emergency" -}}
{{- $rbac := "rbac.authorization.k8s.io/v1" -}}
{{- $binding := lookup $rbac "RoleBinding" .Release.Namespace $name -}}
{{- $role := lookup $rbac "Role" .Release.Namespace $name -}}
{{- $bound := false -}}
{{- if and (eq (dig "roleRef" "kind" "" $binding) "Role") (eq (dig "roleRef" "name" "" $binding) $name) -}}
{{- range $binding.subjects -}}
{{- if and (eq .kind "ServiceAccount") (eq .name "nodekeep-capture") (eq (dig "namespace" "" .) $.Release.Namespace) -}}
{{- $bound = true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $verbs := list -}}
{{- range $role.rules -}}
{{- $groups := dig "apiGroups" list . -}}
{{- $resources := dig "resources" list . -}}
{{- if and (or (has "nodekeep.dev" $groups) (has "*" $groups)) (or (has "closing" $resources) (has "*" $resources)) (not (dig "resourceNames" list .)) -}}
{{- $verbs = concat $verbs .verbs -}}
{{- end -}}
{{- end -}}
{{- if and $bound (has "stop" $verbs) (not (has "continue" $verbs)) (not (has "*" $verbs)) -}}
true
{{- end -}}
{{- end }}

{{/* Rules of a Role: to follow whether an emergency is declared. */}}
{{- define "nodekeep.seesEmergency" }}
- apiGroups: [rbac.authorization.k8s.io] # whether an emergency is declared
  resources: [roles, rolebindings]
  resourceNames: [nodekeep-emergency]
  verbs: [get, list, watch]
{{- end }}

{{/* "true" where protected labels are restored in the CREATE itself. */}}
{{- define "nodekeep.inline" -}}
{{- if eq (((.Values.policy).labels).protected | default "deferred") "inline" -}}
true
{{- end -}}
{{- end }}

{{/*
The right to a dry run of a registration: as one kubelet, whose Node never exists. From Kubernetes 1.36 on it is for that request alone. Before, it is
all that this kubelet may do, and only the policy nodekeep-self-test confines it.
*/}}
{{- define "nodekeep.selfTestRights" -}}
{{- if semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version }}
- apiGroups: [authentication.k8s.io] # a dry-run CREATE with the identity of one kubelet that does not exist
  resources: [nodes]
  resourceNames: [nodekeep-self-test]
  verbs: ["impersonate:arbitrary-node"]
- apiGroups: [""] # and no other request with that identity
  resources: [nodes]
  verbs: ["impersonate-on:arbitrary-node:create"]
{{- else }}
- apiGroups: [""] # a dry-run CREATE with the identity of one kubelet that does not exist; the policy nodekeep-self-test denies it all else
  resources: [users]
  resourceNames: ["system:node:nodekeep-self-test"]
  verbs: [impersonate]
- apiGroups: [""]
  resources: [groups]
  resourceNames: ["system:nodes"]
  verbs: [impersonate]
{{- end }}
{{- end }}

{{/* "true" where pods of the release use the host network. */}}
{{- define "nodekeep.onHost" -}}
{{- if or .Values.capture.hostNetwork .Values.webhook.hostNetwork -}}
true
{{- end -}}
{{- end }}

{{/*
Keys of the taints that keep workloads off a Node until it is verified, as a JSON array. The default key is always among them, so that the
controller can remove its taint after the last profile has left the policy.
*/}}
{{- define "nodekeep.verifyTaints" -}}
{{- $keys := list "nodekeep.dev/unverified" -}}
{{- range ((.Values.policy).verify).profiles -}}
{{- $keys = append $keys (regexFind "^[^=:]+" (.taint | default "nodekeep.dev/unverified")) -}}
{{- end -}}
{{- $keys | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* The label of a verified Node. */}}
{{- define "nodekeep.verifiedLabel" -}}
{{- ((.Values.policy).verify).label | default "nodekeep.dev/verified" -}}
{{- end }}

{{/*
Namespaces in which the controller looks things up for the profiles, as a JSON object: "daemonSets", those of wait.daemonSets,
"every", those of its entries NAMESPACE/*, "all", whether it has the entry auto, and
"services", those of Services on which checks depend: the DNS Service, and Services that a check names, also as NAME.NAMESPACE.svc.
*/}}
{{- define "nodekeep.verifyNamespaces" -}}
{{- $daemonSets := list -}}
{{- $every := list -}}
{{- $all := false -}}
{{- $services := list -}}
{{- $logs := false -}}
{{- $dns := splitList "/" .Values.verify.dnsService | first -}}
{{- range ((.Values.policy).verify).profiles -}}
{{- range dig "wait" "daemonSets" list . -}}
{{- if eq . "auto" -}}
{{- $all = true -}}
{{- else -}}
{{- $daemonSets = append $daemonSets (splitList "/" . | first) -}}
{{- if hasSuffix "/*" . -}}
{{- $every = append $every (splitList "/" . | first) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .checks -}}
{{- $logs = or $logs (hasKey . "kubelet") -}}
{{- with .service -}}
{{- $services = append $services (splitList "/" .name | first) -}}
{{- end -}}
{{- $names := list -}}
{{- with .dns -}}
{{- $names = .names -}}
{{- end -}}
{{- with .tcp -}}
{{- $names = append $names . -}}
{{- end -}}
{{- with .http -}}
{{- $names = append $names (get (urlParse .url) "host") -}}
{{- end -}}
{{- range $names -}}
{{- $services = append $services $dns -}}
{{- with regexFind "^[a-z0-9-]+[.][a-z0-9-]+[.]svc([.:]|$)" . -}}
{{- $services = append $services (index (splitList "." .) 1) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "daemonSets" ($daemonSets | uniq | sortAlpha) "every" ($every | uniq | sortAlpha) "all" $all "services" ($services | uniq | sortAlpha) "logs" $logs | toJson -}}
{{- end }}

{{/* The kinds of removal that profiles of the policy use, as JSON. */}}
{{- define "nodekeep.verifyRemovals" -}}
{{- $kinds := list -}}
{{- range ((.Values.policy).verify).profiles -}}
{{- $kind := dig "onFailure" "keep" . -}}
{{- if ne $kind "keep" -}}
{{- $kinds = append $kinds $kind -}}
{{- end -}}
{{- end -}}
{{- $kinds | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* Labels and annotations of pods; call with a dict that has root, component and values. An annotation of the process wins. */}}
{{- define "nodekeep.podMetadata" -}}
labels:
  {{- include "nodekeep.labels" . | nindent 2 }}
  {{- with .root.Values.pods.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.values.annotations | default dict) (.root.Values.pods.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the Deployments have in common; call with (dict "root" $ "component" "webhook" "values" .Values.webhook). */}}
{{- define "nodekeep.scheduling" -}}
{{- $labels := include "nodekeep.selector" . | fromYaml -}}
priorityClassName: {{ .root.Values.priorityClassName | quote }}
{{- with .root.Values.pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
{{- $own := .root.Values.pods.affinity | default dict }}
{{- with $own }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if not (hasKey $own "nodeAffinity") }}
  {{- include "nodekeep.nodeAffinity" . | nindent 2 }}
{{- end }}
{{- if not (hasKey $own "podAntiAffinity") }}
  podAntiAffinity:
    # A preference: in a small cluster two replicas on one host are better than one.
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- toYaml $labels | nindent 12 }}
{{- end }}
topologySpreadConstraints:
- topologyKey: topology.kubernetes.io/zone
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- toYaml $labels | nindent 6 }}
{{- end }}

{{/*
Which Nodes are fit. Virtual ones run no Pod of nodekeep, or only look as if they did. Nodes of the control plane are preferred, and different hosts
are preferred to them: the scheduler scales scores to the highest one, and the first term, which every Node has, makes their lead a small one.
*/}}
{{- define "nodekeep.nodeAffinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - {key: type, operator: NotIn, values: [virtual-kubelet, kwok]}
      - {key: eks.amazonaws.com/compute-type, operator: NotIn, values: [fargate]}
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 75
    preference:
      matchExpressions:
      - {key: kubernetes.io/os, operator: Exists}
  - weight: 25
    preference:
      matchExpressions:
      - {key: node-role.kubernetes.io/control-plane, operator: Exists}
{{- end }}

{{/*
Tolerations of all Deployments: an empty cluster must be able to start. No taint has the value "never". The two tolerations with it keep the API
server from adding others that would let the scheduler choose a Node which is lost, for as long as five minutes.
*/}}
{{- define "nodekeep.tolerations" -}}
- {key: node.kubernetes.io/unreachable, operator: Equal, value: never, effect: NoExecute}
{{- if not .values.hostNetwork }}
- {key: node.kubernetes.io/not-ready, operator: Equal, value: never, effect: NoExecute}
{{- end }}
- {key: {{ .root.Values.gate.key }}, operator: Exists}
- {key: node-role.kubernetes.io/control-plane, operator: Exists}
{{- $keys := list }}
{{- range ((.root.Values.policy).taints).register }}
{{- $keys = append $keys (regexFind "^[^=:]+" .taint) }}
{{- end }}
{{- if .root.Values.verify.enabled }}
{{- $keys = concat $keys (include "nodekeep.verifyTaints" .root | fromJsonArray) }}
{{- end }}
{{- range uniq $keys }}
- {key: {{ . | quote }}, operator: Exists} # the policy adds it to every new Node
{{- end }}
{{- with .root.Values.pods.tolerations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What is on a Node before the CNI works: for pods on the host network. */}}
{{- define "nodekeep.earlyTolerations" -}}
- {key: node.kubernetes.io/not-ready, operator: Exists}
- {key: node.kubernetes.io/network-unavailable, operator: Exists}
- {key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists}
{{- end }}

{{- define "nodekeep.pullSecrets" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end -}}
{{- end }}

{{- define "nodekeep.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "nodekeep.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Flags that all processes have. */}}
{{- define "nodekeep.args" -}}
- --namespace={{ .root.Release.Namespace }}
- --gate-key={{ .root.Values.gate.key }}
- --metrics-bind-address={{ if .root.Values.metrics.enabled }}:{{ .ports.metrics }}{{ else }}0{{ end }}
{{- if .root.Values.metrics.secure }}
- --metrics-secure
{{- end }}
- --health-probe-bind-address={{ with .ports.probes }}:{{ . }}{{ else }}unix:/run/nodekeep/probes.sock{{ end }}
- --log-format={{ .root.Values.log.format }}
- --log-level={{ .root.Values.log.level }}
{{- range .values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The environment; call with a dict that has root. A component names its Pod in the status of the NodePolicy. */}}
{{- define "nodekeep.env" -}}
{{- if or .component .root.Values.pods.env -}}
env:
{{- if .component }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
{{- with .root.Values.pods.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
{{- end }}

{{/* The Secret with the serving certificate where nodekeep does not issue it itself. */}}
{{- define "nodekeep.certificateSecret" -}}
{{- if eq .Values.certificates.mode "certManager" }}nodekeep-webhook-certificate{{ else }}{{ .Values.certificates.secret.name }}{{ end -}}
{{- end }}
