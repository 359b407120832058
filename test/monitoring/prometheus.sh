# shellcheck shell=bash
# shellcheck disable=SC2154 # slow, code, answer, target and http_port are of run.sh, world.sh and requests.sh
# A Prometheus with the rules of manifests/monitoring, in which a minute is a second, and what it says. Source it after world.sh,
# in run.sh: it takes give_up() and check() from there.

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
prometheus_begin() {
	awk 'below { sub(/^  /, ""); print } /^spec:/ { below = 1 }' manifests/monitoring/rules.yaml |
		sed -E 's/\[([0-9]+)m\]/[\1s]/g; s/for: ([0-9]+)m$/for: \1s/; s/\* 60/* 1/' >"$WORLD/rules.yaml"
	cat >"$WORLD/prometheus.yml" <<-END
		global: {scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}
		rule_files: [$WORLD/rules.yaml]
		scrape_configs:
		  - job_name: dpf/snap-csi-controller
		    static_configs: [{targets: ["127.0.0.1:$http_port"], labels: {namespace: dpf, pod: snap-csi-0, node: $NODE}}]
	END
	prometheus_url=http://127.0.0.1:$(free_port)
	prometheus --config.file="$WORLD/prometheus.yml" --storage.tsdb.path="$WORLD/tsdb" --log.level=warn \
		--web.listen-address="${prometheus_url#http://}" >"$WORLD/prometheus.log" 2>&1 &
	WORLD_PIDS+=("$!")
	world_until 20 prometheus_ready || give_up 'Prometheus does not start'
}
prometheus_ready() {
	curl --silent --fail --max-time 60 "$prometheus_url/-/ready" >/dev/null
}
query() { # EXPRESSION: prints the number of series of its answer
	curl --silent --max-time 60 --get --data-urlencode "query=$1" "$prometheus_url/api/v1/query" | jq -r '.data.result | length'
}
brings_data() {
	[ "$(query "$1")" -gt 0 ] 2>/dev/null
}
fires() {
	curl --silent --max-time 60 "$prometheus_url/api/v1/alerts" | jq -e --arg name "$1" \
		'any(.data.alerts[]; .labels.alertname == $name and .state == "firing")' >/dev/null
}
ended() {
	! fires "$1"
}
expect_alert() { # NAME WHILE
	check "$1 fires $2" world_until 20 fires "$1"
}
expect_end() { # NAME WHEN
	check "$1 ends $2" world_until 25 ended "$1"
}
labels_of() { # EXPRESSION: the labels of its answer, without those of the scrape; the value of what has no others
	curl --silent --max-time 60 --get --data-urlencode "query=$1" "$prometheus_url/api/v1/query" | jq -r '[.data.result[] |
		.value[1] as $value | .metric | del(.__name__, .instance, .job, .namespace, .pod, .node) | to_entries |
		if . == [] then $value else map("\(.key)=\"\(.value)\"") | join(", ") end] | unique | join("; ")'
}
