#!/usr/bin/env bash
# Names in README.md, CHANGELOG.md and the pages of docs/ exist: files and folders of manifests/, charts/, packaging/ and
# docs/, targets of make in `code`; in pages about the driver only, each flag in `code` is one of the driver's. Each page
# is in the table of contents, docs/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
pages=(README.md docs/*.md docs/{install,use,operate,troubleshoot,hosts,reference}/*.md)
for page in "${pages[@]}"; do
	[[ $page != docs/* || $page = docs/README.md ]] || grep -qF "](${page#docs/})" docs/README.md || { echo "$page:1: docs/README.md does not have it"; bad=1; }
done
while IFS=: read -r file line path; do
	path=${path%[.,]}
	[ -e "$path" ] || { echo "$file:$line: there is no $path"; bad=1; }
done < <(grep -noE '(^|[^A-Za-z0-9/._-])(manifests|charts|packaging|docs)/[A-Za-z0-9_./-]*[A-Za-z0-9_-]' "${pages[@]}" CHANGELOG.md |
	sed -E 's/^([^:]*:[0-9]+:)[^a-z]?/\1/')
targets=$(cat Makefile packaging/*.mk test/*/rules.mk 2>/dev/null | sed -nE 's/^([a-z0-9_.-]+( [a-z0-9_.-]+)*):([^=]|$).*/\1/p' | tr ' ' '\n' | sort -u)
while IFS=: read -r file line target; do
	grep -qxF -- "$target" <<<"$targets" || { echo "$file:$line: there is no make $target"; bad=1; }
done < <(grep -noE '(`|^    )([A-Z_]+=[^ `]+ )*make( [A-Z_]+=[^ `]+)* [a-z][a-z0-9-]*' "${pages[@]}" | sed -E 's/^([^:]*:[0-9]+:).* /\1/')
known=$({
	grep -ohE '(FLAG|IGNORED)\([^"]*"[a-z-]+"' src/flags/flags.def | sed 's/.*"\(.*\)"/\1/'
	grep -rhoE '"(--)?[a-z][a-z0-9-]+"' src/host src/inspect src/main.c | tr -d '"' | sed 's/^--//'
} | sort -u)
# Flags of others that these pages name: of kubelet, k0s, Helm and the sidecars.
others='flag node-labels reset-values reuse-values rollback-on-failure atomic reconcile-sync extra-create-metadata worker-threads timeout data-dir kubelet-root-dir root-dir'
while IFS=: read -r file line flag; do
	flag=${flag#\`} flag=${flag#--}
	grep -qxF -- "$flag" <<<"$known" || grep -qwF -- "$flag" <<<"$others" || { echo "$file:$line: nobody has a flag --$flag"; bad=1; }
done < <(grep -noE '`--[a-z][a-z0-9-]+' README.md docs/{operate/*,install/{requirements,kustomize,distributions,air-gapped},reference/{parameters,flags,kinds,formatting,features},migrate-from-go-plugin}.md)
exit $bad
