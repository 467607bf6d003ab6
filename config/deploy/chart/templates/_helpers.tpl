{{- /* The names of accounts and namespaces are fixed: the admission policies know them. */ -}}

{{- define "mercato.image" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is needed: make an image by config/deploy/Dockerfile, and name it, for example --set image.repository=registry.example/mercato" -}}
{{- end -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "mercato.labels" -}}
app.kubernetes.io/name: mercato
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* "on", where the daemon has a gateway. Helm reads a bare `on` as true. */ -}}
{{- define "mercato.gateway" -}}
{{- $said := dig "gateway" "enabled" "off" .Values.config | toString -}}
{{- if has $said (list "on" "true") -}}on{{- end -}}
{{- end -}}

{{- define "mercato.nodes" -}}
{{- if or (eq (toString .Values.nodes) "true") (and (eq (toString .Values.nodes) "auto") (include "mercato.gateway" .)) -}}on{{- end -}}
{{- end -}}

{{- define "mercato.claim" -}}
{{ .Values.persistence.existingClaim | default "mercato" }}
{{- end -}}

{{- /* The daemon's configuration: what the owner writes, over what the chart knows. */ -}}
{{- define "mercato.config" -}}
{{- $known := dict "health" (ternary "0.0.0.0:7476" "127.0.0.1:7476" .Values.metrics.enabled) -}}
{{- if include "mercato.gateway" . -}}
{{- $_ := set $known "gateway" (dict "nodes" (dict "image" (include "mercato.image" .))) -}}
{{- end -}}
{{- /* At another address than the pod's no Service leads. */ -}}
{{- $webhook := dict "port" 7481 -}}
{{- if not (dig "kubernetes" "address" "" .Values.config) -}}
{{- $_ := set $webhook "service" "mercato/mercato-webhook" -}}
{{- end -}}
{{- $_ := set $known "kubernetes" (dict "webhook" $webhook) -}}
{{- $config := mergeOverwrite $known (deepCopy .Values.config) -}}
{{- $_ := set $config "dataDir" "/var/lib/mercato" -}}
{{ toYaml $config }}
{{- end -}}

{{- define "mercato.webhook" -}}
{{ dig "kubernetes" "webhook" "port" 7481 .Values.config }}
{{- end -}}
