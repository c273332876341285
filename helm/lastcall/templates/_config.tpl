{{/* How pods are removed: "evict", or "delete" in strict mode. */}}
{{- define "lastcall.method" -}}
{{- $method := dig "drain" "kubernetes" "method" "" .Values.config -}}
{{- if and .Values.rbac.strict (eq $method "evict") -}}
{{- fail "config.drain.kubernetes.method is evict, which rbac.strict gives no right for" -}}
{{- end -}}
{{- if .Values.rbac.strict -}}delete{{- else -}}{{ $method | default "evict" }}{{- end -}}
{{- end }}

{{/* The configuration as JSON: what follows from other values, and `config`. */}}
{{- define "lastcall.config" -}}
{{- range $key, $instead := dict
    "node_name" "each agent takes its own node's"
    "state_dir" "set hostDirectories.state"
    "socket.path" "set hostDirectories.socket"
    "http.listen" "set http.address and http.port" -}}
{{- $path := splitList "." $key -}}
{{- $table := $.Values.config -}}
{{- range initial $path -}}{{- $table = get $table . | default dict -}}{{- end -}}
{{- if hasKey $table (last $path) -}}
{{- fail (printf "config.%s cannot be set: %s" $key $instead) -}}
{{- end -}}
{{- end -}}
{{- $host := .Values.http.address -}}
{{- if contains ":" $host -}}{{- $host = printf "[%s]" $host -}}{{- end -}}
{{- $made := dict
    "http" (dict "listen" (printf "%s:%d" $host (int .Values.http.port)))
    "drain" (dict "backend" "kubernetes" "kubernetes" (dict "method" (include "lastcall.method" .))) -}}
{{- mustMergeOverwrite $made (deepCopy .Values.config) | toRawJson -}}
{{- end }}

{{/*
A table of TOML without its heading: its values, then the tables within, as `.table` at `.path`.
Helm's own toToml writes whole numbers as floats, which the agent refuses. What is no table is the same
in TOML as in JSON.
*/}}
{{- define "lastcall.toml" -}}
{{- $lists := dict -}}
{{- range $key, $value := .table -}}
{{- $name := include "lastcall.tomlKey" $key -}}
{{- if and (kindIs "slice" $value) $value (kindIs "map" (first $value)) -}}
{{- $_ := set $lists $key $value -}}
{{- else if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ $name }} = {{ toRawJson $value }}
{{- end -}}
{{- end -}}
{{- range $key, $value := .table -}}
{{- $path := append $.path (include "lastcall.tomlKey" $key) -}}
{{- if kindIs "map" $value }}

[{{ join "." $path }}]
{{- include "lastcall.toml" (dict "path" $path "table" $value) -}}
{{- else if hasKey $lists $key -}}
{{- range $value }}

[[{{ join "." $path }}]]
{{- include "lastcall.toml" (dict "path" $path "table" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "lastcall.tomlKey" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . -}}{{ . }}{{- else -}}{{ toRawJson . }}{{- end -}}
{{- end }}
