# Reads what `snap-csi-plugin --help`, `host --help` and `inspect --help` print, and writes their options.
# -v form=man    as rows of a man page
# -v form=usage  the commands of host as rows of a man page
# -v form=words  one line for each flag: COMMANDS FLAG KIND, for the completion. COMMANDS is -v command=NAME, or for host
#                "host:attach,detach"; KIND is none (takes no value), bool, file, dir or text. A word that may follow the
#                command is a line, too, of KIND word
# A row is "  -o, --option=VALUE (command, command)   text"; the text may go on in deeper lines. A line without
# indent before options is a title.
function roff(s) {
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	gsub(/'/, "\\(aq", s)
	gsub(/`/, "\\(ga", s)
	return s
}

function kind(value) {
	if (value == "") return "none"
	if (value == "false") return "bool"
	if (value ~ /^(FILE|PATH)$/) return "file"
	return value == "DIR" ? "dir" : "text"
}

# Words of capitals stand for something else, all other are written as they are.
function bold(line,    words, n, i, out) {
	n = split(line, words, / /)
	for (i = 1; i <= n; i++) {
		out = out (i > 1 ? " " : "")
		if (words[i] ~ /^\[?[A-Z]+\]?$/) {
			word = words[i]
			gsub(/[A-Z]+/, "\\fI&\\fR", word)
			out = out word
		} else if (words[i] ~ /[a-z]/) {
			word = roff(words[i])
			gsub(/[a-z\\-]+/, "\\fB&\\fR", word)
			out = out word
		} else
			out = out words[i]
	}
	return out
}

function put_man(    words, n, i, out) {
	# Flags in bold, their values in italics.
	n = split(left, words, /, /)
	for (i = 1; i <= n; i++) {
		value = words[i]
		name = value
		sub(/[[= ].*/, "", name)
		value = substr(value, length(name) + 1)
		out = out (i > 1 ? ", " : "") "\\fB" roff(name) "\\fR"
		if (value != "") {
			mark = value ~ /^\[=/ ? "[=" : substr(value, 1, 1)
			value = substr(value, length(mark) + 1)
			sub(/\]$/, "", value)
			out = out mark "\\fI" roff(value) "\\fR" (mark == "[=" ? "]" : "")
		}
	}
	if (commands != "") out = out " (" commands ")"
	print ".TP\n" out
	text = roff(text)
	if (text ~ /^[.]/) text = "\\&" text
	print text
}

function put_words(    words, n, i, value, name, where) {
	where = command
	if (commands != "") {
		where = commands
		gsub(/, /, ",", where)
		where = command ":" where
	}
	n = split(left, words, /, /)
	# "-f, --file=FILE": both take the value of the last.
	value = words[n]
	sub(/^-+[a-z0-9_-]*/, "", value)
	if (value ~ /^\[/) value = "false"
	gsub(/^[= ]/, "", value)
	for (i = 1; i <= n; i++) {
		name = words[i]
		sub(/[[= ].*/, "", name)
		print where, name, kind(value)
	}
}

function flush() {
	if (left != "") {
		gsub(/ +/, " ", text)
		sub(/^ /, "", text)
		if (form == "man") put_man()
		if (form == "words") put_words()
	}
	if (usage != "" && form == "usage") {
		gsub(/ +/, " ", text)
		sub(/^ /, "", text)
		print ".TP\n" bold(usage) "\n" roff(toupper(substr(text, 1, 1)) substr(text, 2)) "."
	}
	usage = ""
	left = text = commands = ""
}

/^  -/ {
	flush()
	left = $0
	sub(/^  /, "", left)
	if (match(left, /   *[^ ]/)) {
		text = substr(left, RSTART)
		left = substr(left, 1, RSTART - 1)
	}
	if (match(left, / \([a-z, ]+\)$/)) {
		commands = substr(left, RSTART + 2, RLENGTH - 3)
		left = substr(left, 1, RSTART - 1)
	}
	next
}

form != "man" && /^  (snap-csi-plugin host|inspect) [a-z]+/ {
	flush()
	n = split($0, part, / +/)
	usage = $0
	sub(/^  snap-csi-plugin host /, "", usage)
	if (form == "words") print command, part[$1 == "inspect" ? 3 : 4], "word"
	next
}

# The commands are described by hand in the man page.
/^Commands:/ { flush(); in_commands = 1; next }
in_commands && /^  [a-z]/ { if (form == "words") print command, $1, "word" }
in_commands { if (/^$/) in_commands = 0; next }

/^  \(no effect\)/ {
	flush()
	sub(/^  \(no effect\) */, "")
	text = $0
	if (form == "man") print "Command lines of the Go plugin may have these flags, too; they have no effect:"
	ignored = 1
	next
}

/^      / { if (left != "" || ignored || usage != "") text = text " " $0; next }

{
	if (ignored && form == "man") {
		gsub(/ +/, " ", text)
		print roff(text)
	}
	ignored = 0
	flush()
	if (form == "man" && titles && /^[A-Z][^:]*$/ && !/^Options/ && !/[.]$/) print ".SS " $0
}

END { flush() }
