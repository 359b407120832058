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

{{- define "snap-csi.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* (dict "root" . "name" NAME), and "cluster" true for an object without a namespace, "component", "labels", "annotations":
its metadata. Labels of the chart go before those of values. */}}
{{- define "snap-csi.metadata" -}}
{{- $root := .root -}}
{{- $labels := dict "app.kubernetes.io/name" (include "snap-csi.name" $root) "app.kubernetes.io/instance" $root.Release.Name -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- with .component }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end -}}
name: {{ .name | quote }}
{{- if not .cluster }}
namespace: {{ include "snap-csi.namespace" $root | quote }}
{{- end }}
labels:
  {{- merge $labels (.labels | default dict) $root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge dict (.annotations | default dict) $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* (list . component), and the name of a node group: what a selector asks for. Selectors cannot be changed, so nothing of these
comes from a version. */}}
{{- define "snap-csi.pods" -}}
app.kubernetes.io/name: {{ include "snap-csi.name" (index . 0) | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- if gt (len .) 2 }}
{{- with index . 2 }}
csi.snap.nvidia.com/node-group: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* (dict "root" . "selector" LABELS "labels" ... "annotations" ...): metadata of a pod. */}}
{{- define "snap-csi.pod-metadata" -}}
labels:
  {{- merge (fromYaml .selector) .labels .root.Values.commonLabels | toYaml | nindent 2 }}
annotations:
  {{- merge (dict "kubectl.kubernetes.io/default-container" "snap-csi-plugin") .annotations .root.Values.commonAnnotations | toYaml | nindent 2 }}
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

{{/* (list . kubeletDir): kubelet calls the driver at csi.sock below this; the kernel takes 107 characters. */}}
{{- define "snap-csi.plugin-dir" -}}
{{- $path := printf "%s/plugins/%s" (index . 1) (index . 0).Values.driver.name -}}
{{- if gt (len (printf "%s/csi.sock" $path)) 107 -}}
{{- fail (printf "the path of the driver's socket, %s/csi.sock, is longer than the 107 characters that a socket may have: choose a shorter driver.name" $path) -}}
{{- end -}}
{{- $path -}}
{{- end -}}

{{/* (list . node): the hook of --pre-stop. Beside node-driver-registrar it would keep volumes mounted: kubelet forgets the driver
when the registrar's container ends, which is at once. */}}
{{- define "snap-csi.pre-stop" -}}
{{- $sidecars := (index . 0).Values.sidecars.enabled -}}{{- $enabled := (index . 1).preStop.enabled -}}
{{- if and $sidecars $enabled -}}
{{- fail "node.preStop.enabled: true with sidecars.enabled, but kubelet forgets the driver when the registrar's container ends, which does not wait for the hook: volumes would stay mounted. Leave node.preStop.enabled out, or disable the sidecars" -}}
{{- end -}}
{{- if and (not $sidecars) (or $enabled (kindIs "invalid" $enabled)) -}}true{{- end -}}
{{- end -}}

{{/* (list . node): labels of hosts. DPF's terms choose hosts with a DPU themselves. */}}
{{- define "snap-csi.node-selector" -}}
{{- $selector := (index . 1).nodeSelector -}}
{{- if (index . 0).Values.serviceDaemonSet.nodeSelector }}{{ $selector = omit $selector "feature.node.kubernetes.io/dpu-enabled" }}{{ end -}}
{{- if $selector }}{{ toYaml $selector }}{{ end -}}
{{- end -}}

{{/* (list . node group): affinity of a node's pod: that of values, DPF's terms, and with groups never two drivers on one host,
where each would take the other's socket. */}}
{{- define "snap-csi.node-affinity" -}}
{{- $root := index . 0 -}}{{- $affinity := deepCopy (index . 1).affinity -}}
{{- with $root.Values.serviceDaemonSet.nodeSelector -}}
{{- if dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "" $affinity -}}
{{- fail "serviceDaemonSet.nodeSelector and node.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution both choose the hosts, and a pod has room for one of them: leave node.affinity.nodeAffinity to DPF" -}}
{{- end -}}
{{- $affinity = merge (dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" .)) $affinity -}}
{{- end -}}
{{- if index . 2 -}}
{{- $apart := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "snap-csi.pods" (list $root "node") | fromYaml)) -}}
{{- $others := dig "podAntiAffinity" "requiredDuringSchedulingIgnoredDuringExecution" list $affinity -}}
{{- $affinity = mergeOverwrite $affinity (dict "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (append $others $apart))) -}}
{{- end -}}
{{- if $affinity }}{{ toYaml $affinity }}{{ end -}}
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

{{/* (list monitor endpoints ports): what a PodMonitor and a ServiceMonitor have alike. */}}
{{- define "snap-csi.monitor-spec" -}}
{{- $monitor := index . 0 -}}
{{- with $monitor.attachMetadata }}
attachMetadata:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ index . 1 }}:
  {{- range index . 2 }}
  - port: {{ . }}
    {{- with pick $monitor "interval" "relabelings" "metricRelabelings" }}
    {{- range $key, $value := . }}
    {{- with $value }}
    {{ $key }}: {{ toJson . }}
    {{- end }}
    {{- end }}
    {{- end }}
  {{- end }}
{{- end -}}
