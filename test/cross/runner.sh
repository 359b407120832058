#!/bin/sh
# Makes PROGRAM, built for another machine, executable on this one: the program itself is moved to PROGRAM.elf, and PROGRAM
# becomes a script that runs it by RUNNER. So tests start each other's programs unchanged, and nothing is registered with the
# kernel (binfmt_misc). Usage: runner.sh PROGRAM QEMU [ARGUMENT...]
set -eu
program=$(realpath "$1")
shift
rm -f "$program.elf"
mv "$program" "$program.elf"
printf '#!/bin/sh\nexec %s -0 "$0" "%s.elf" "$@"\n' "$*" "$program" >"$program.new"
chmod +x "$program.new"
mv "$program.new" "$program"
