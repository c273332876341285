{{/* What opens the node's GPUs and the kernel's log to the agent's container. */}}

{{- define "lastcall.gpuEnv" -}}
{{- if .Values.gpu.visible }}
- name: NVIDIA_VISIBLE_DEVICES
  value: all
# NVML alone, without CUDA.
- name: NVIDIA_DRIVER_CAPABILITIES
  value: utility
{{- end }}
{{- if .Values.gpu.hostLibraries }}
- name: LD_LIBRARY_PATH
  value: /usr/local/nvidia/lib64
{{- end }}
{{- end }}

{{- define "lastcall.gpuMounts" -}}
{{- if .Values.gpu.hostLibraries }}
- name: nvidia
  mountPath: /usr/local/nvidia
  readOnly: true
  # What an installer of the driver mounts there later is seen, too.
  mountPropagation: HostToContainer
{{- end }}
{{- if .Values.gpu.kernelLog }}
- name: kmsg
  mountPath: /dev/kmsg
  readOnly: true
{{- end }}
{{- end }}

{{- define "lastcall.gpuVolumes" -}}
{{- with .Values.gpu.hostLibraries }}
- name: nvidia
  hostPath:
    path: {{ . }}
    # A node whose driver comes later, or never, has an agent all the same.
    type: DirectoryOrCreate
{{- end }}
{{- if .Values.gpu.kernelLog }}
- name: kmsg
  hostPath:
    path: /dev/kmsg
    type: CharDevice
{{- end }}
{{- end }}

{{/* The container's: as given, and privileged only where that is asked for. */}}
{{- define "lastcall.securityContext" -}}
{{- if and .Values.gpu.kernelLog (not .Values.gpu.privileged) -}}
{{- fail "gpu.kernelLog needs gpu.privileged: no other container may open /dev/kmsg" -}}
{{- end -}}
{{- if and .Values.gpu.hostLibraries (not .Values.gpu.privileged) -}}
{{- fail "gpu.hostLibraries needs gpu.privileged: no other container may open the GPUs' device files without the container toolkit" -}}
{{- end -}}
{{- if and .Values.gpu.runtimeClassName (not .Values.gpu.visible) -}}
{{- fail "gpu.runtimeClassName needs gpu.visible: that runtime shows no GPUs to a container that does not ask for them" -}}
{{- end -}}
{{- $context := deepCopy .Values.securityContext -}}
{{- if .Values.gpu.privileged -}}
{{- /* The API server refuses the one without the other. */ -}}
{{- $context = mustMergeOverwrite $context (dict "privileged" true "allowPrivilegeEscalation" true) -}}
{{- end -}}
{{- if .Values.gpu.kernelLog -}}
{{- $capabilities := $context.capabilities | default dict -}}
{{- $added := append ($capabilities.add | default list) "SYSLOG" | uniq -}}
{{- $_ := set $context "capabilities" (merge (dict "add" $added) $capabilities) -}}
{{- end -}}
{{- toYaml $context -}}
{{- end }}
