#!/usr/bin/env bash
# The libraries of another architecture, unpacked into a folder. Usage: sysroot.sh ARCH FOLDER PACKAGE...
#
# Nothing of this machine changes: apt works with a state of its own, in which that architecture is the only one and nothing
# is installed, so it names the whole closure; the packages are unpacked, never installed. (Not every -dev package can be
# installed twice: libgrpc-dev and libprotobuf-dev depend on programs that the machine needs for itself.) The sources and
# keys are the machine's own. Does nothing when FOLDER has been made of the same packages.
set -eu
arch=$1 folder=$2
shift 2
list="$arch $(cksum <"$0") $*"
[ "$(cat "$folder/.packages" 2>/dev/null)" != "$list" ] || exit 0
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
[ "$(cat "$folder/.packages" 2>/dev/null)" != "$list" ] || exit 0
echo "deps: libraries of $arch for $folder: $*"
apt=$folder.apt new=$folder.new
rm -rf "$apt" "$new"
trap 'rm -rf "$apt" "$new"' EXIT
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$new/usr/lib"
: >"$apt/status"
cat >"$apt/apt.conf" <<END
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Install-Recommends "false";
APT::Get::Assume-Yes "true";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
END
apt_get() { APT_CONFIG=$apt/apt.conf apt-get -qq "$@" </dev/null; }
apt_get update
apt_get --download-only install "$@" >/dev/null

# As on a merged Debian, /lib is /usr/lib. Only what a compiler and a loader read is kept.
ln -s usr/lib "$new/lib"
# .dpkg records for each package its name, version and files, for reports on the origin of a library.
mkdir "$new/.dpkg"
for package in "$apt"/cache/archives/*.deb; do
	name=$(dpkg-deb -f "$package" Package)
	dpkg-deb -f "$package" >"$new/.dpkg/$name.control"
	dpkg-deb --fsys-tarfile "$package" | tar -t >"$new/.dpkg/$name.list"
	dpkg-deb --fsys-tarfile "$package" | tar -x -C "$new" --keep-directory-symlink --no-same-owner \
		--wildcards --exclude='./usr/share' --exclude='./usr/bin' --exclude='./usr/sbin' --exclude='./bin' \
		--exclude='./sbin' --exclude='./etc' --exclude='./var' -f -
	# For the copyrights; some packages share the folder of another one.
	dpkg-deb --fsys-tarfile "$package" | tar -x -C "$new" --no-same-owner --wildcards --exclude='*changelog*' './usr/share/doc/*' 2>/dev/null || true
done
# Links to /lib/... are relative to the folder, wherever it is.
find "$new" -lname '/*' -printf '%p %l\n' | while read -r path target; do
	ln -snfr "$new$target" "$path"
done
echo "$list" >"$new/.packages"
rm -rf "$folder"
mv "$new" "$folder"
