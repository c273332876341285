{{/* How a monitor of either kind scrapes the agents. */}}
{{- define "lastcall.endpoint" -}}
port: metrics
path: /metrics
interval: {{ .interval }}
scrapeTimeout: {{ .scrapeTimeout }}
relabelings:
  # Alerts and dashboard name the instance: a node's name says more than an address.
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: instance
  {{- with .relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Is a monitor of this kind made? It cannot be where it would do harm or nothing. */}}
{{- define "lastcall.monitored" -}}
{{- if .values.enabled -}}
{{- if and .root.Values.podMonitor.enabled .root.Values.serviceMonitor.enabled -}}
{{- fail "podMonitor.enabled and serviceMonitor.enabled are both true: every agent would be scraped twice" -}}
{{- end -}}
{{- if include "lastcall.isLocal" .root -}}
{{- fail (printf "http.address is %s, which Prometheus cannot reach: disable the monitor" .root.Values.http.address) -}}
{{- end -}}
true
{{- end -}}
{{- end }}
