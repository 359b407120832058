#!/usr/bin/env bash
# The table of pains in test/README.md: every row names at least one proof, and every test, scenario and check that is
# named exists. In its last column:
#   `node/stage/test_unstage: a_name`   a test function (or the whole program, without a name) of test/unit or test/
#   VM "title"                    a scenario of test/vm that begins so
#   kube "title"                  a scenario of test/kube that begins so
#   e2e "title", main "title"     a case of test/e2e, a check of test/main/main.sh
#   api "title"                   a row of test/kube/api.py that begins so
#   external "title"              a spec of test/reports/external-storage.md that begins so
# The table of kinds names its tests in the same way; there a cell may also give the reason for having no test. In the table
# of docs/reference/features.md a row has no test only if the feature is not applicable. The second column of the table of homes is one
# test, or the command of a suite.
# docs/operate/security.md has a table of threats, whose cells name claims (T1), and test/reports/threats.md has these claims: each
# claim is named and has a test. There a fuzz target (`fuzz/fuzz_kube`) and a check of this folder (`lint/manifests`) are tests, too.
set -u
cd "$(dirname "$0")/../.." || exit 1
table=test/README.md
bad=0
wrong() { # row, text
	echo "$table:$(grep -n "^| $1 |" "$table" | cut -d: -f1): $2"
	bad=1
}
c_test() { # row, "node/test_x: name"
	local file=${2%%: *} name=${2#*: } source found_in=
	[[ $file != lint/* || ! -x test/$file.sh ]] || return 0
	for source in "test/unit/$file.c" "test/$file.c"; do
		[ -e "$source" ] || continue
		[ "$name" != "$2" ] && ! grep -q "^START_TEST($name)" "$source" || return 0
		found_in=$source
	done
	wrong "$1" "there is no ${found_in:+test $name in }${found_in:-test/unit/$file.c}"
}
titled() { # row, suite, title
	case $2 in
	VM) grep -hF "\"\"\"$3" test/vm/scenarios*.py ;;
	kube) grep -hF "@scenario(\"$3" test/kube/*.py ;;
	e2e) grep -hF -e "'$3" -e "\"$3" test/e2e/*.sh ;;
	main) grep -hF "check '$3" test/main/main.sh ;;
	api) grep -hF "@row(\"$3" test/kube/api.py ;;
	external) grep -F "| $3" test/reports/external-storage.md ;;
	esac >/dev/null || wrong "$1" "there is no $2 scenario \"$3\""
}
titles() { # text: prints SUITE TITLE lines
	grep -oE '\b(VM|kube|e2e|main|api|external) "[^"]*"' <<<"$1"
}
functions() { # text
	tr '`' '\n' <<<"$1" | grep -E '^([a-z_/0-9]*test_|wire/|fuzz/|lint/)'
}
found=0
proofs() { # row, text: checks each test that the text names; their number is in $found
	local token suite title
	found=0
	while read -r token; do
		[ -n "$token" ] || continue
		found=$((found + 1))
		c_test "$1" "${token#test/}"
	done < <(functions "$2")
	while read -r suite title; do
		[ -n "$suite" ] || continue
		found=$((found + 1))
		title=${title#\"}
		titled "$1" "$suite" "${title%\"}"
	done < <(titles "$2")
}
rows_of() { # name, pattern: the rows of the table between <!-- NAME --> and <!-- end of NAME -->
	sed -n "/<!-- $1 -->/,/<!-- end of $1 -->/p" "$table" | grep "$2"
}
rows=$(rows_of pains '^| [0-9]')
[ "$(wc -l <<<"$rows")" -ge 2 ] || { echo "$table:1: no table of pains"; exit 1; }
last=0
while IFS='|' read -r _ number _ _ tests _; do
	number=${number// /}
	[ "$number" -gt "$last" ] || wrong "$number" "comes after row $last"
	last=$number
	proofs "$number" "$tests"
	[ "$found" -gt 0 ] || wrong "$number" "no test is named"
	[ "$(tr -cd '"' <<<"$tests" | wc -c)" -eq "$((2 * $(titles "$tests" | wc -l)))" ] ||
		wrong "$number" "a title in quotes has no suite before it"
done <<<"$rows"
homes=$(rows_of homes '^| ' | tail -n +3)
[ "$(wc -l <<<"$homes")" -ge 2 ] || { echo "$table:1: no table of homes"; exit 1; }
while IFS='|' read -r _ what home _; do
	what=${what# } what=${what% }
	[ "$({ functions "$home"; titles "$home"; grep -o "\`make [a-z-]*\`" <<<"$home"; } | wc -l)" -eq 1 ] || wrong "$what" "it has no home, or several"
done <<<"$homes"
kinds=$(rows_of kinds '^| [a-z]')
[ "$(wc -l <<<"$kinds")" -ge 2 ] || { echo "$table:1: no table of kinds"; exit 1; }
while read -r row; do
	what=${row#| }
	proofs "${what%% |*}" "$row"
done <<<"$homes
$kinds"
table=docs/reference/features.md
features=$(rows_of features '^| ' | tail -n +3)
[ "$(wc -l <<<"$features")" -ge 2 ] || { echo "$table:1: no table of features"; exit 1; }
while IFS='|' read -r _ what state _ tests _; do
	what=${what# } what=${what% }
	proofs "$what" "$tests"
	[ "$found" -gt 0 ] || [ "${state// /}" = notapplicable ] || wrong "$what" "no test is named"
done <<<"$features"
table=docs/operate/security.md
threats=$(rows_of threats '^| ' | tail -n +3)
[ "$(wc -l <<<"$threats")" -ge 10 ] || { echo "$table:1: no table of threats"; exit 1; }
table=test/reports/threats.md
claims=$(rows_of claims '^| T[0-9]')
while read -r claim; do
	grep -q "^| $claim |" <<<"$claims" || { echo "$table:1: a threat of docs/operate/security.md names claim $claim, which has no row"; bad=1; }
done < <(grep -oE '\bT[0-9]+\b' <<<"$threats" | sort -u)
while IFS='|' read -r _ claim _ tests _; do
	claim=${claim// /}
	grep -qE "\b$claim\b" <<<"$threats" || wrong "$claim" "no threat names it"
	proofs "$claim" "$tests"
	[ "$found" -gt 0 ] || wrong "$claim" "no test is named"
done <<<"$claims"
exit $bad
