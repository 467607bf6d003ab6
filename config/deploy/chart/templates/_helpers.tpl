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

{{- /* Secrets with the registry's credentials, as a list of names in JSON. The last one is the chart's own. */ -}}
{{- define "mercato.pullSecrets" -}}
{{- $all := list -}}
{{- range .Values.imagePullSecrets }}{{ $all = append $all (dict "name" .name) }}{{ end -}}
{{- with .Values.image.credentials -}}
{{- if not (kindIs "map" (get (fromJson .) "auths")) -}}
{{- fail "image.credentials is no docker config with a login in it: give it by --set-file image.credentials=FILE, of a file such as ~/.docker/config.json whose auths are no helper's" -}}
{{- end -}}
{{- $all = append $all (dict "name" "mercato-registry") -}}
{{- end -}}
{{ toJson $all }}
{{- end -}}

{{- /* "on" or "off", whether the daemon has a gateway. Helm reads a bare `on` as true. What nobody has
said is on in a new release; an upgrade leaves it as it is, and starts nothing that was not there. */ -}}
{{- define "mercato.gatewayIs" -}}
{{- $said := dig "gateway" "enabled" "" .Values.config | toString -}}
{{- if not $said -}}
{{- $said = "on" -}}
{{- if .Release.IsUpgrade -}}
{{- $there := lookup "v1" "ConfigMap" "mercato" "mercato" | default dict -}}
{{- $said = dig "data" "mercato.yaml" "" $there | fromYaml | dig "gateway" "enabled" "off" | toString -}}
{{- end -}}
{{- end -}}
{{- ternary "on" "off" (has $said (list "on" "true")) -}}
{{- end -}}

{{- /* "on", where the daemon has a gateway. */ -}}
{{- define "mercato.gateway" -}}
{{- if eq (include "mercato.gatewayIs" .) "on" -}}on{{- end -}}
{{- end -}}

{{- define "mercato.nodes" -}}
{{- if or (eq (toString .Values.nodes) "true") (and (eq (toString .Values.nodes) "auto") (include "mercato.gateway" .)) -}}on{{- end -}}
{{- end -}}

{{- /* For how long virtual nodes are kept while the daemon is away; empty: they are not. Values of a release
that had no such value are the defaults. */ -}}
{{- define "mercato.keepAlive" -}}
{{- $heartbeat := .Values.heartbeat | default dict -}}
{{- if ne (get $heartbeat "enabled" | toString) "false" -}}{{ get $heartbeat "keepAlive" | default "1h" }}{{- end -}}
{{- end -}}

{{- define "mercato.claim" -}}
{{ .Values.persistence.existingClaim | default "mercato" }}
{{- end -}}

{{- /* The daemon's configuration: what the owner writes, over what the chart knows. */ -}}
{{- define "mercato.config" -}}
{{- $gateway := dict "enabled" (include "mercato.gatewayIs" .) -}}
{{- if include "mercato.gateway" . -}}
{{- $nodes := dict "image" (include "mercato.image" .) -}}
{{- range include "mercato.pullSecrets" . | fromJsonArray -}}
{{- $_ := set $nodes "imagePullSecrets" (append (get $nodes "imagePullSecrets" | default list) (printf "/etc/mercato-registry/%s" .name)) -}}
{{- end -}}
{{- $_ := set $gateway "nodes" $nodes -}}
{{- end -}}
{{- $known := dict "health" (include "mercato.health" .) "gateway" $gateway -}}
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

{{- /* Where health and metrics are, ADDRESS:PORT. */ -}}
{{- define "mercato.health" -}}
{{ dig "health" (ternary "0.0.0.0:7476" "127.0.0.1:7476" .Values.metrics.enabled) .Values.config }}
{{- end -}}

{{- define "mercato.healthPort" -}}
{{ include "mercato.health" . | regexFind "[0-9]+$" }}
{{- end -}}

{{- /* Where the kubelet of the daemon's node finds it. */ -}}
{{- define "mercato.healthHost" -}}
{{- $host := include "mercato.health" . | regexFind "^.*:" | trimSuffix ":" | trimAll "[]" -}}
{{ get (dict "0.0.0.0" "127.0.0.1" "::" "::1") $host | default $host }}
{{- end -}}

{{- /* How the kubelet asks for `path`. */ -}}
{{- define "mercato.probe" -}}
httpGet: { host: {{ include "mercato.healthHost" .root | quote }}, port: {{ include "mercato.healthPort" .root }}, path: {{ .path }} }
{{- end -}}

{{- /* The ports at which peers connect, with commas. */ -}}
{{- define "mercato.listen" -}}
{{- $ports := list -}}
{{- range dig "listen" (list ":7474") .Values.config }}{{ $ports = append $ports (regexFind "[0-9]+$" .) }}{{ end -}}
{{ uniq $ports | join "," }}
{{- end -}}

{{- /* Ports of the node that the daemon takes. */ -}}
{{- define "mercato.ports" -}}
{{- range $n, $port := include "mercato.listen" . | splitList "," }}
- { name: peers-udp{{ if $n }}-{{ $n }}{{ end }}, containerPort: {{ $port }}, protocol: UDP }
- { name: peers-tcp{{ if $n }}-{{ $n }}{{ end }}, containerPort: {{ $port }}, protocol: TCP }
{{- end }}
- { name: health, containerPort: {{ include "mercato.healthPort" . }}, protocol: TCP }
- { name: webhook, containerPort: {{ include "mercato.webhook" . }}, protocol: TCP }
{{- $admin := dig "kubernetes" "adminPort" 7480 .Values.config }}
{{- if not (has (toString $admin) (list "off" "false")) }}
- { name: admin, containerPort: {{ $admin }}, protocol: TCP }
{{- end }}
{{- if include "mercato.gateway" . }}
- { name: tunnels, containerPort: {{ dig "gateway" "port" 7475 .Values.config }}, protocol: UDP }
- { name: nodes, containerPort: {{ dig "gateway" "nodes" "port" 7478 .Values.config }}, protocol: TCP }
{{- end }}
{{- end -}}
