#!/usr/bin/env bash
# make release-test: packaging/release.sh in two clones that differ in path, umask, time zone, language and file times. The
# cheap parts are built twice and compared; FULL=1 builds every part twice (half an hour). Invalid input is refused.
set -u
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES MFLAGS
passed=0 failed=0
check() { # TITLE COMMAND...
	local title=$1
	shift
	if "$@" >"$work/said" 2>&1; then
		echo "ok   $title"
		passed=$((passed + 1))
	else
		echo "FAIL $title"
		sed 's/^/     /' "$work/said" | tail -n 20
		failed=$((failed + 1))
	fi
}
refused() { # TEXT COMMAND...
	local text=$1 rc
	shift
	"$@" >"$work/refusal" 2>&1
	rc=$?
	cat "$work/refusal"
	[ "$rc" -ne 0 ] && grep -qF "$text" "$work/refusal"
}
git rev-parse -q --verify HEAD >/dev/null || { echo 'release: a release is made of a commit, and this is no clone of the repository' >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/var/tmp}/snap-csi-release-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
version=$(packaging/version.sh)
# What is tested is the commit with the files of the working folder on top, in a repository of the test's own.
mkdir "$work/one"
git ls-files -z | tar --null -T - -cf - 2>/dev/null | tar -C "$work/one" -xf -
author=(-c user.name=test -c user.email=test@localhost -c commit.gpgsign=false -c core.hooksPath=/dev/null)
export GIT_AUTHOR_DATE='2026-01-05T00:00:00Z' GIT_COMMITTER_DATE='2026-01-05T00:00:00Z'
git -C "$work/one" init -q && git -C "$work/one" add -A && git -C "$work/one" "${author[@]}" commit -qm test || exit 1
(umask 077 && git clone -q "$work/one" "$work/a-longer path" && find "$work/a-longer path" -exec touch -d 2001-09-09 {} +)

parts='source notes plugin chart sums'
[ -z "${FULL-}" ] || parts=
one() { (cd "$work/one" && OUT=$work/out1 packaging/release.sh "$version" "$@"); }
two() { (cd "$work/a-longer path" && umask 077 && TZ=Asia/Tokyo LC_ALL=C OUT=$work/out2 packaging/release.sh "$version" "$@"); }
# What an earlier release of the same number, or one that was killed, has left there is not part of this one.
mkdir "$work/out1" && echo old | tee "$work/out1/snap-csi_0.0.1_amd64.deb" "$work/out1/SHA256SUMS" "$work/out1/.new" >/dev/null
# shellcheck disable=SC2086 # a list
check "a release is made: ${parts:-all parts}" one $parts
# shellcheck disable=SC2086 # a list
check 'and made again, in a clone elsewhere' two $parts
check 'both have the same files, bit by bit' diff -r "$work/out1" "$work/out2"
check 'there are files' test -s "$work/out1/SHA256SUMS"
check 'the sums are right, and each file has one' bash -c 'cd "$1" && sha256sum -c --strict --quiet SHA256SUMS && [ "$(ls | wc -l)" -eq "$(($(wc -l <SHA256SUMS) + 1))" ]' sums "$work/out1"
sources() { # the tarball has the commit's files, no others, with their modes
	tar -C "$work" -xzf "$work/out1/snap-csi-$version.tar.gz" && (cd "$work/one" && git ls-files; echo COMMIT) | sort >"$work/files" &&
		(cd "$work/snap-csi-$version" && find . ! -type d | sed 's#^\./##' | sort) | diff "$work/files" - &&
		[ -x "$work/snap-csi-$version/packaging/release.sh" ] &&
		[ "$(cat "$work/snap-csi-$version/COMMIT")" = "$(git -C "$work/one" rev-parse --short=12 HEAD)" ]
}
check 'the source tarball holds what the commit has, and its name' sources
check 'what it holds says its version' bash -c '[ "$(make -s -C "$1" help | head -n 1 | grep -cF "snap-csi $2")" = 1 ]' help "$work/snap-csi-$version" "$version"
notes() { # every line of the section
	head -n 1 "$work/out1/snap-csi-$version-notes.md" | grep -qxF "# snap-csi $version" &&
		sed "1,/^## ${version//./\\.}/d; /^## /,\$d" CHANGELOG.md | grep . | diff - <(tail -n +2 "$work/out1/snap-csi-$version-notes.md" | grep .)
}
check 'the notes are the section of CHANGELOG.md' notes
images() { # each digest is that of its archive's list of manifests, which names a manifest for each machine
	local image digest count=0 blob
	while read -r image digest; do
		tar -xOf "$work/out1/${image%:*}-$version-oci.tar" ./index.json | grep -qF "\"$digest\"" || return 1
		blob=$work/list && tar -xOf "$work/out1/${image%:*}-$version-oci.tar" "./blobs/sha256/${digest#sha256:}" >"$blob" || return 1
		[ "sha256:$(sha256sum <"$blob" | cut -d' ' -f1)" = "$digest" ] && grep -qE '"architecture": ?"amd64"' "$blob" || return 1
		count=$((count + 1))
	done <"$work/out1/snap-csi-$version-images.txt"
	[ "$count" -eq 2 ]
}
[ -n "$parts" ] || check 'the digests of the images are those of their archives' images
if [ -e charts/snap-csi ]; then
	chart() {
		tar -xOzf "$work/out1/snap-csi-chart-$version.tgz" snap-csi/Chart.yaml | grep -qxE "version: \"?$version\"?" &&
			[ "$(tar -tzf "$work/out1/snap-csi-chart-$version.tgz" | grep -c '[^/]$')" = "$(find -L charts/snap-csi -type f | wc -l)" ]
	}
	check 'the chart has its version and every file' chart
fi
check 'another version than the tree has is refused, with what to do' refused 'make set-version VERSION=9.9.9' bash -c 'cd "$1" && packaging/release.sh 9.9.9' r "$work/one"
exec 8<"$work/out1" && flock 8
check 'two at once in one folder: the second is refused' refused 'another release is being made' one notes
exec 8<&-
check 'an unknown part is refused' refused 'there is no part nonsense' one nonsense
echo '# changed' >>"$work/one/Makefile"
check 'a part that is made anew takes the sums away, which may be wrong now' bash -c 'cd "$1" && OUT=$2 packaging/release.sh "$3" notes && [ ! -e "$2/SHA256SUMS" ] && [ -s "$2/snap-csi-$3.tar.gz" ]' anew "$work/a-longer path" "$work/out2" "$version"
check 'a file that differs from the commit is refused' refused 'commit or stash' one source
git -C "$work/one" checkout -q Makefile
sed -i 's/newTag: .*/newTag: 0.0.1/' "$work/one/manifests/base/kustomization.yaml"
git -C "$work/one" "${author[@]}" commit -qam changed
check 'a file of another version is refused, by its name' refused 'manifests/base/kustomization.yaml:' one source
check 'set-version writes all of them' bash -c 'cd "$1" && packaging/version.sh set 1.2.3-rc.4 && ! grep -rnE "newTag: 0\.0\.1" manifests README.md && [ "$(packaging/version.sh)" = 1.2.3-rc.4 ]' set "$work/one"
old_names() { # no file names the version of before as ours; what has been is history, and the picture is of a run
	! git -C "$work/one" grep -nE -e "(snap-csi|newTag|appVersion|(^|[^a-zA-Z])[vV]ersion|VERSION)[^@]*[^.0-9]${version//./\\.}([^.0-9]|\$)" --and --not -e 'name: dpf-storage' -- . ':!CHANGELOG.md' ':!docs/demo.svg' ':!src/rpc' ':!test/rpc' ':!test/unit'
}
check 'after it no other file names the old version' old_names
check 'a version that CHANGELOG.md does not have is refused' refused 'there is no section "## 1.2.3-rc.4"' bash -c 'cd "$1" && packaging/release.sh 1.2.3-rc.4' r "$work/one"
upgraded() { # what is linked into the driver, and who compiles it: packages that the Makefile does not name
	local words listed file package
	words=$(make -n V=1 upgrade-deps | sed -n 's#^packaging/upgrade-deps.sh ##p')
	# shellcheck disable=SC2086 # a list
	listed=$([ -n "$words" ] && packaging/upgrade-deps.sh --list $words) || return 1
	for file in libgrpc_unsecure.a libcares.a libabsl_base.a libstdc++.a libgcc.a libz.a libprotobuf-c.a cc1 ld; do
		package=$(dpkg-query -S "$(realpath "$(gcc -print-file-name="$file")")" 2>/dev/null || dpkg-query -S "$(realpath "$(gcc -print-prog-name="$file")")" 2>/dev/null || dpkg-query -S "$(realpath "$(command -v "$file")")") || return 1
		package=${package%%:*}
		grep -qxF "$package" <<<"$listed" || { echo "$package, which has $file, stays as it is"; return 1; }
	done
}
check 'make upgrade-deps takes what is linked into the driver, and its compiler' upgraded
check 'what is no version is refused' refused 'is no version' "$work/one/packaging/version.sh" set '1.0; rm -rf /'
echo "release: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
