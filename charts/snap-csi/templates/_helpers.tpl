{{/* The name that all objects begin with. It is also the label by which pods are found, as in manifests/base. */}}
{{- define "snap-csi.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "snap-csi" .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-snap-csi" (.Release.Name | trunc 34 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "snap-csi.labels" -}}
app.kubernetes.io/name: {{ include "snap-csi.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* (list . component): what a selector asks for. Selectors cannot be changed, so nothing of these comes from a version. */}}
{{- define "snap-csi.pods" -}}
app.kubernetes.io/name: {{ include "snap-csi.name" (index . 0) | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* (list . image): the reference of an image, by its digest where there is one. */}}
{{- define "snap-csi.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- $name := printf "%s/%s" ($root.Values.imageRegistry | default $image.registry) $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* (list . image): image and pullPolicy of a container. */}}
{{- define "snap-csi.image-lines" -}}
image: {{ include "snap-csi.image" . | quote }}
{{- with (index . 1).pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end -}}

{{- define "snap-csi.controller-account" -}}
{{- .Values.controller.serviceAccountName | default (printf "%s-controller" (include "snap-csi.name" .)) -}}
{{- end -}}
{{- define "snap-csi.node-account" -}}
{{- .Values.node.serviceAccountName | default (printf "%s-node" (include "snap-csi.name" .)) -}}
{{- end -}}

{{/* The sidecars' leases are named by the driver: manifests/base/rbac.yaml. */}}
{{- define "snap-csi.lease" -}}
{{- .Values.driver.name | replace "." "-" -}}
{{- end -}}

{{/* kubelet calls the driver at csi.sock below this; the kernel takes 107 characters. */}}
{{- define "snap-csi.plugin-dir" -}}
{{- $path := printf "%s/plugins/%s" .Values.kubeletDir .Values.driver.name -}}
{{- if gt (len (printf "%s/csi.sock" $path)) 107 -}}
{{- fail (printf "the path of the driver's socket, %s/csi.sock, is longer than the 107 characters that a socket may have: choose a shorter driver.name" $path) -}}
{{- end -}}
{{- $path -}}
{{- end -}}

{{/* The containers that need no privilege. */}}
{{- define "snap-csi.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Beside the node's driver, whose socket SELinux keeps from other containers: manifests/components/sidecars/node.yaml. */}}
{{- define "snap-csi.beside-privileged" -}}
{{ include "snap-csi.unprivileged" . }}
seLinuxOptions:
  type: spc_t
{{- end -}}

{{/* (list . priorityClassName) */}}
{{- define "snap-csi.priority" -}}
{{- $root := index . 0 -}}
{{- $root.Values.priorityClass.create | ternary (include "snap-csi.name" $root) (index . 1) -}}
{{- end -}}

{{- define "snap-csi.log-args" -}}
{{- if ne .Values.driver.loggingFormat "text" }}
- --logging-format={{ .Values.driver.loggingFormat }}
{{- end }}
- --v={{ .Values.driver.verbosity }}
{{- end -}}

{{/* livenessprobe; (list . port volume security-context) */}}
{{- define "snap-csi.liveness-container" -}}
{{- $root := index . 0 -}}
- name: liveness-probe
  {{- include "snap-csi.image-lines" (list $root $root.Values.sidecars.livenessProbe.image) | nindent 2 }}
  args:
    - --v=2
    - --csi-address=/csi/csi.sock
    - --probe-timeout=3s
    - --health-port={{ index . 1 }}
  resources:
    {{- toYaml $root.Values.sidecars.livenessProbe.resources | nindent 4 }}
  securityContext:
    {{- include (index . 3) $root | nindent 4 }}
  volumeMounts:
    - name: {{ index . 2 }}
      mountPath: /csi
{{- end -}}
