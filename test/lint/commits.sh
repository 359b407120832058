#!/usr/bin/env bash
# Messages of the commits since `since`: a subject "area: imperative" of at most 72 columns, and a body. Arguments: the range of
# commits (default: since..HEAD). Where `since` is not in the history (a tarball, a shallow clone), nothing is checked.
set -u
cd "$(dirname "$0")/../.." || exit 1
since=7e43cb7f2f87d33556d23ce34170d56163b8d7a6
git merge-base --is-ancestor "$since" HEAD 2>/dev/null || exit 0
git log --no-merges -z --format='%h%n%B' "${1-$since..HEAD}" | awk -v RS='\0' -v FS='\n' '
function say(text) { printf "commit %s: %s: \"%s\"\n", $1, text, $2; bad = 1 }
# Words that look like a past tense or a participle but are verbs.
BEGIN { split("need feed seed embed shed bring ping string", words, " "); for (i in words) verb[words[i]] = 1 }
{
	if (length($2) > 72) say("the subject has " length($2) " columns, more than 72")
	if (!match($2, /^[A-Za-z0-9_.*-]+(\/[A-Za-z0-9_.*-]+)*(, [A-Za-z0-9_.*-]+(\/[A-Za-z0-9_.*-]+)*)*: [a-z]/)) say("the subject is not \"area: imperative\"")
	else {
		word = substr($2, RSTART + RLENGTH - 1); sub(/[^a-z-].*/, "", word)
		if (word ~ /(ed|ing)$/ && !(word in verb)) say("\"" word "\" is not an imperative")
	}
	if ($2 ~ /\.$/) say("the subject ends with a full stop")
	if ($3 != "") say("no empty line below the subject")
	body = 0
	for (i = 4; i <= NF; i++) if ($i ~ /[A-Za-z]/ && $i !~ /^[A-Za-z-]+-[Bb]y: /) body = 1
	if (!body) say("no body: symptom, cause, what changes, what it costs")
}
END { exit bad }'
