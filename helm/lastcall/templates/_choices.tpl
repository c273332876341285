{{/* Questions that more than one template asks; each answers "true" or nothing. */}}

{{/* Does the agent speak to the API server at all? */}}
{{- define "lastcall.drains" -}}
{{- $backend := dig "drain" "backend" "kubernetes" .Values.config -}}
{{- if ne (toString $backend) "none" -}}true{{- end -}}
{{- end }}

{{/* Are admission policies made? Their API is there since Kubernetes 1.30, and so is the token's claim. */}}
{{- define "lastcall.pinned" -}}
{{- if include "lastcall.drains" . -}}
{{- $enabled := toString .Values.admissionPolicy.enabled -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version)) -}}
true
{{- end -}}
{{- end -}}
{{- end }}

{{/* Can nothing but the machine itself read the pages? */}}
{{- define "lastcall.isLocal" -}}
{{- if has .Values.http.address (list "127.0.0.1" "::1" "localhost") -}}
{{- if not .Values.hostNetwork -}}
{{- fail (printf "http.address is %s, which the kubelet's probes cannot reach: it needs hostNetwork" .Values.http.address) -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{/* Are the host directories given to the agent's user first? */}}
{{- define "lastcall.handsOver" -}}
{{- $handOver := toString .Values.runAs.handOver -}}
{{- if and (or .Values.hostDirectories.socket .Values.hostDirectories.state)
    (or (eq $handOver "true") (and (eq $handOver "auto") (ne (int .Values.runAs.user) 0))) -}}
true
{{- end -}}
{{- end }}

{{/* Does the priority class need a quota here? */}}
{{- define "lastcall.needsQuota" -}}
{{- if and .Values.resourceQuota.enabled (hasPrefix "system-" .Values.priorityClassName) (ne .Release.Namespace "kube-system") -}}
true
{{- end -}}
{{- end }}
