#!/usr/bin/env bash
# The table of pains in test/README.md: every row names at least one proof, and every test, scenario and check that is
# named exists. In its last column:
#   `node/stage/test_unstage: a_name`   a test function (or the whole program, without a name) of test/unit or test/
#   VM "title"                    a scenario of test/vm that begins so
#   kube "title"                  a scenario of test/kube that begins so
#   e2e "title", main "title"     a case of test/e2e, a check of test/main/main.sh
#   api "title"                   a row of test/kube/api.py that begins so
#   external "title"              a spec of test/kube/EXTERNAL.md that begins so
# The table of kinds names its tests in the same way; there a cell may also say why it has none. In the table of
# docs/features.md a row has none only where the feature is not applicable. The second column of the table of homes is one
# test, or the command of a suite.
set -u
cd "$(dirname "$0")/../.." || exit 1
table=test/README.md
bad=0
wrong() { # row, text
	echo "$table:$(grep -n "^| $1 |" "$table" | cut -d: -f1): $2"
	bad=1
}
c_test() { # row, "node/test_x: name"
	local file=${2%%: *} name=${2#*: } source
	for source in "test/unit/$file.c" "test/$file.c"; do
		[ -e "$source" ] || continue
		[ "$name" = "$2" ] || grep -q "^START_TEST($name)" "$source" || wrong "$1" "there is no test $name in $source"
		return 0
	done
	wrong "$1" "there is no test/unit/$file.c"
}
titled() { # row, suite, title
	case $2 in
	VM) grep -hF "\"\"\"$3" test/vm/scenarios*.py ;;
	kube) grep -hF "@scenario(\"$3" test/kube/*.py ;;
	e2e) grep -hF -e "'$3" -e "\"$3" test/e2e/*.sh ;;
	main) grep -hF "check '$3" test/main/main.sh ;;
	api) grep -hF "@row(\"$3" test/kube/api.py ;;
	external) grep -F "| $3" test/kube/EXTERNAL.md ;;
	esac >/dev/null || wrong "$1" "there is no $2 scenario \"$3\""
}
titles() { # text: prints SUITE TITLE lines
	grep -oE '\b(VM|kube|e2e|main|api|external) "[^"]*"' <<<"$1"
}
functions() { # text
	tr '`' '\n' <<<"$1" | grep -E '^([a-z_/0-9]*test_|wire/)'
}
rows=$(sed -n '/<!-- pains -->/,/<!-- end of pains -->/p' "$table" | grep '^| [0-9]')
[ "$(wc -l <<<"$rows")" -ge 2 ] || { echo "$table:1: no table of pains"; exit 1; }
last=0
while IFS='|' read -r _ number _ _ proofs _; do
	number=${number// /}
	[ "$number" -gt "$last" ] || wrong "$number" "comes after row $last"
	last=$number
	found=0
	while read -r token; do
		[ -n "$token" ] || continue
		found=$((found + 1))
		c_test "$number" "$token"
	done < <(functions "$proofs")
	while read -r suite title; do
		[ -n "$suite" ] || continue
		found=$((found + 1))
		title=${title#\"}
		titled "$number" "$suite" "${title%\"}"
	done < <(titles "$proofs")
	[ "$found" -gt 0 ] || wrong "$number" "no test is named"
	[ "$(tr -cd '"' <<<"$proofs" | wc -c)" -eq "$((2 * $(titles "$proofs" | wc -l)))" ] ||
		wrong "$number" "a title in quotes has no suite before it"
done <<<"$rows"
homes=$(sed -n '/<!-- homes -->/,/<!-- end of homes -->/p' "$table" | grep '^| ' | tail -n +3)
[ "$(wc -l <<<"$homes")" -ge 2 ] || { echo "$table:1: no table of homes"; exit 1; }
while IFS='|' read -r _ what home _; do
	what=${what# } what=${what% }
	[ "$({ functions "$home"; titles "$home"; grep -o "\`make [a-z-]*\`" <<<"$home"; } | wc -l)" -eq 1 ] || wrong "$what" "it has no home, or several"
done <<<"$homes"
kinds=$(sed -n '/<!-- kinds -->/,/<!-- end of kinds -->/p' "$table" | grep '^| [a-z]')
[ "$(wc -l <<<"$kinds")" -ge 2 ] || { echo "$table:1: no table of kinds"; exit 1; }
while read -r row; do
	what=${row#| } what=${what%% |*}
	while read -r token; do
		c_test "$what" "$token"
	done < <(functions "$row")
	while read -r suite title; do
		title=${title#\"}
		titled "$what" "$suite" "${title%\"}"
	done < <(titles "$row")
done <<<"$homes
$kinds"
table=docs/features.md
features=$(sed -n '/<!-- features -->/,/<!-- end of features -->/p' "$table" | grep '^| ' | tail -n +3)
[ "$(wc -l <<<"$features")" -ge 2 ] || { echo "$table:1: no table of features"; exit 1; }
while IFS='|' read -r _ what state _ proofs _; do
	what=${what# } what=${what% }
	found=0
	while read -r token; do
		[ -n "$token" ] || continue
		found=$((found + 1))
		c_test "$what" "${token#test/}"
	done < <(functions "$proofs")
	while read -r suite title; do
		[ -n "$suite" ] || continue
		found=$((found + 1))
		title=${title#\"}
		titled "$what" "$suite" "${title%\"}"
	done < <(titles "$proofs")
	[ "$found" -gt 0 ] || [ "${state// /}" = notapplicable ] || wrong "$what" "no test is named"
done <<<"$features"
exit $bad
