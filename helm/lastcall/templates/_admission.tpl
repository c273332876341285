{{/*
What the admission policies share. An RBAC rule cannot say "its own node"; a policy can, since the API
server tells it which node the token's pod is on (Kubernetes docs, ServiceAccount admission, "bound
tokens"). It sees no node in an eviction, so evictions are held to nothing but disruption budgets;
`rbac.strict` does without them.
*/}}

{{/* Whose requests a policy is asked about: the agent's alone. */}}
{{- define "lastcall.onlyTheAgent" -}}
matchConditions:
  - name: the-agent
    expression: >-
      request.userInfo.username ==
      'system:serviceaccount:{{ .Release.Namespace }}:{{ include "lastcall.serviceAccount" . }}'
{{- end }}

{{/* The node that the agent's token names; empty where it names none. */}}
{{- define "lastcall.ownNode" -}}
- name: ownNode
  expression: >-
    has(request.userInfo.extra) &&
    'authentication.kubernetes.io/node-name' in request.userInfo.extra
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end }}

{{- define "lastcall.needsNode" -}}
- expression: variables.ownNode != ''
  message: the agent's token names no node, so it may change nothing
  reason: Forbidden
{{- end }}

{{/* True where the maps `.new` and `.old` differ in no key but those for which `.except` holds. */}}
{{- define "lastcall.same" -}}
{{ .new }}.all(k, {{ .except }} || (k in {{ .old }} && {{ .new }}[k] == {{ .old }}[k])) &&
{{ .old }}.all(k, {{ .except }} || k in {{ .new }})
{{- end }}

{{/* True where the lists `.new` and `.old` hold the same, apart from items `x` for which `.except` holds. */}}
{{- define "lastcall.sameItems" -}}
{{ .new }}.all(x, {{ .except }} || x in {{ .old }}) &&
{{ .old }}.all(x, {{ .except }} || x in {{ .new }})
{{- end }}

{{- define "lastcall.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "lastcall.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}
