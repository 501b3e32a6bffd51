{{/* The name of everything in the release. */}}
{{- define "tidegate.name" -}}
{{- if contains "tidegate" .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}{{ printf "%s-tidegate" .Release.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "tidegate.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Labels by which a part is found: dict "root" . "part" "broker". */}}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* The Secret with the token of the admin API. */}}
{{- define "tidegate.adminSecret" -}}
{{ .Values.admin.existingSecret | default (printf "%s-admin" (include "tidegate.name" .)) }}
{{- end -}}

{{/* Which part of the release clients connect to. */}}
{{- define "tidegate.edge" -}}
{{- if eq .Values.mode "fleet" -}}orchestrator{{- else if eq .Values.mode "mobile" -}}gateway{{- else if eq .Values.mode "hub" -}}hub{{- else -}}broker{{- end -}}
{{- end -}}

{{/* The Secret with the certificate for clients; empty without TLS. */}}
{{- define "tidegate.certificate" -}}
{{- if .Values.tls.existingSecret -}}{{ .Values.tls.existingSecret }}{{- else if .Values.tls.certManager.enabled -}}{{ include "tidegate.name" . }}-tls{{- end -}}
{{- end -}}

{{- define "tidegate.plain" -}}
{{- if or (not (include "tidegate.certificate" .)) .Values.tls.keepPlain -}}true{{- end -}}
{{- end -}}

{{/* A scheme and port for those who want to connect. */}}
{{- define "tidegate.url" -}}
{{- if include "tidegate.certificate" . -}}mqtts://{{ include "tidegate.name" . }}.{{ .Release.Namespace }}.svc:8883{{- else -}}mqtt://{{ include "tidegate.name" . }}.{{ .Release.Namespace }}.svc:1883{{- end -}}
{{- end -}}

{{- define "tidegate.security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tidegate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Ports of a container or Service that clients use: dict "root" . "key" "containerPort" or "port". */}}
{{- define "tidegate.clientPorts" -}}
{{- $key := .key -}}
{{- with .root -}}
{{- if include "tidegate.plain" . }}
- {name: mqtt, {{ $key }}: 1883}
{{- if .Values.websocket }}
- {name: ws, {{ $key }}: 9001}
{{- end }}
{{- end }}
{{- if include "tidegate.certificate" . }}
- {name: mqtts, {{ $key }}: 8883}
{{- if .Values.websocket }}
- {name: wss, {{ $key }}: 8084}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The init containers that hash the passwords of the release into a file. */}}
{{- define "tidegate.passwords" -}}
{{- if and (not .Values.auth.allowAnonymous) (not .Values.auth.existingSecret) }}
initContainers:
{{- $users := .Values.auth.users | default (list (dict "name" "tidegate")) }}
{{- range $number, $user := $users }}
  - name: user-{{ $number }}
    image: {{ include "tidegate.image" $ }}
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    args: [passwd, {{ if eq $number 0 }}--create, {{ end }}--batch, /run/tidegate/passwords, {{ $user.name | quote }}, $(PASSWORD)]
    env:
      - name: PASSWORD
        valueFrom: {secretKeyRef: {name: {{ include "tidegate.name" $ }}-users, key: {{ $user.name | quote }}}}
    resources:
      requests: {cpu: 50m, memory: 64Mi}
      limits: {memory: 128Mi}
    securityContext:
      {{- include "tidegate.containerSecurity" $ | nindent 6 }}
    volumeMounts:
      - {name: run, mountPath: /run/tidegate}
{{- end }}
{{- end }}
{{- end -}}

{{- define "tidegate.edgeVolumes" -}}
- name: configuration
  configMap: {name: {{ include "tidegate.name" . }}}
- name: admin-token
  secret: {secretName: {{ include "tidegate.adminSecret" . }}}
{{- if .Values.auth.existingSecret }}
- name: passwords
  secret: {secretName: {{ .Values.auth.existingSecret }}, defaultMode: 0440}
{{- else }}
- name: run
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}
{{- with include "tidegate.certificate" . }}
- name: certificate
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if include "tidegate.isMember" . }}
- name: cluster-secret
  secret: {secretName: {{ .Values.cluster.existingSecret | default (printf "%s-cluster" (include "tidegate.name" .)) }}, defaultMode: 0440}
{{- end }}
{{- if not .Values.persistence.enabled }}
- name: data
  emptyDir: {}
{{- end }}
{{- end -}}

{{- define "tidegate.edgeMounts" -}}
- {name: configuration, mountPath: /etc/tidegate/tidegate.toml, subPath: tidegate.toml, readOnly: true}
- {name: admin-token, mountPath: /etc/tidegate/admin, readOnly: true}
- {name: data, mountPath: /var/lib/tidegate}
{{- if .Values.auth.existingSecret }}
- {name: passwords, mountPath: /etc/tidegate/users, readOnly: true}
{{- else }}
- {name: run, mountPath: /run/tidegate}
{{- end }}
{{- if include "tidegate.certificate" . }}
- {name: certificate, mountPath: /etc/tidegate/tls, readOnly: true}
{{- end }}
{{- if include "tidegate.isMember" . }}
- {name: cluster-secret, mountPath: /etc/tidegate/cluster, readOnly: true}
{{- end }}
{{- end -}}

{{- define "tidegate.volumeClaim" -}}
{{- if .Values.persistence.enabled }}
volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .Values.persistence.storageClass }}
      storageClassName: {{ . }}
      {{- end }}
      resources: {requests: {storage: {{ .Values.persistence.size }}}}
{{- end }}
{{- end -}}

{{- define "tidegate.placement" -}}
{{- $root := .root -}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tidegate.selector" . | nindent 8 }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tidegate.selector" . | nindent 8 }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Whether pods are members of a cluster: its nodes, and the orchestrators of a fleet that has a bus. */}}
{{- define "tidegate.isMember" -}}
{{- if or (eq .Values.mode "cluster") (and (eq .Values.mode "fleet") (or .Values.bus.address .Values.bus.existingSecret)) }}true{{ end -}}
{{- end -}}

{{/* How many orchestrators a fleet has, as YAML: several where a bus lets them share sessions, so that one may be lost. */}}
{{- define "tidegate.orchestrators" -}}
{{- $usual := ternary (dict "min" 2 "max" 4) (dict "min" 1 "max" 1) (eq (include "tidegate.isMember" .) "true") -}}
{{- $given := .Values.fleet.orchestrators -}}
{{- $most := $given.max | default (max $usual.max ($given.min | default $usual.min)) -}}
{{- $least := $given.min | default (min $usual.min $most) -}}
{{- if gt (int $least) (int $most) -}}
{{- fail (printf "fleet.orchestrators.min=%d is above fleet.orchestrators.max=%d; lower min or raise max" (int $least) (int $most)) -}}
{{- end -}}
{{- dict "min" $least "max" $most | toYaml -}}
{{- end -}}

{{/* A variable with the address of the bus: dict "root" . "variable" NAME. */}}
{{- define "tidegate.bus" -}}
- name: {{ .variable }}
{{- if .root.Values.bus.existingSecret }}
  valueFrom: {secretKeyRef: {name: {{ .root.Values.bus.existingSecret }}, key: address}}
{{- else }}
  value: {{ required "modes cluster and mobile need a bus: set bus.address, such as nats://nats:4222, or bus.existingSecret" .root.Values.bus.address | quote }}
{{- end }}
{{- end -}}
