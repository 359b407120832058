# Sourced by every command that the host sends: the DPU's actions on the functions, done with nvme-cli.
# shellcheck shell=sh
export PATH=/sbin:/bin:/usr/sbin:/usr/bin LC_ALL=C

# pfs: PCI addresses of the physical functions, sorted
pfs() {
	for d in /sys/bus/pci/devices/*; do
		[ "$(cat "$d/class")" != 0x010802 ] || [ -e "$d/physfn" ] || basename "$d"
	done
}
# controller_of BDF: its nvme controller's name
controller_of() {
	for c in "/sys/bus/pci/devices/$1/nvme"/nvme*; do
		[ ! -e "$c" ] || { basename "$c" && break; }
	done
}
# vf PF-BDF N: PCI address of its N-th virtual function
vf() { basename "$(readlink "/sys/bus/pci/devices/$1/virtfn$2")"; }
# vf_online PF N: gives the secondary controllers 1..N their queues and puts them online
vf_online() {
	c=$(controller_of "$1")
	i=1
	while [ "$i" -le "$2" ]; do
		nvme virt-mgmt "/dev/$c" -c $i -r 0 -a 8 -n 3 >/dev/null
		nvme virt-mgmt "/dev/$c" -c $i -r 1 -a 8 -n 2 >/dev/null
		nvme virt-mgmt "/dev/$c" -c $i -r 0 -a 9 -n 0 >/dev/null
		i=$((i + 1))
	done
}
# vf_up PF N: N virtual functions, online, bound to no driver
vf_up() {
	p=/sys/bus/pci/devices/$1
	c=$(controller_of "$1")
	nvme virt-mgmt "/dev/$c" -c 0 -r 0 -a 1 -n 0 >/dev/null
	nvme virt-mgmt "/dev/$c" -c 0 -r 1 -a 1 -n 0 >/dev/null
	echo 1 >"$p/reset"
	echo 0 >"$p/sriov_drivers_autoprobe"
	echo "$2" >"$p/sriov_numvfs"
	vf_online "$1" "$2"
}
# Linux hides the UUIDs of QEMU's controllers (a quirk of 1b36:0010); a dynamic id without the quirk takes precedence. Call it
# before the functions are bound; it binds those without a driver.
show_uuids() { echo "1b36 0010 ffffffff ffffffff 010802 ffffff 0" >/sys/bus/pci/drivers/nvme/new_id; }
# attach PF NSID CNTLID / detach PF NSID CNTLID: attaches or detaches a volume, as the DPU does
attach() { nvme attach-ns "/dev/$(controller_of "$1")" -n "$2" -c "$3"; }
detach() { nvme detach-ns "/dev/$(controller_of "$1")" -n "$2" -c "$3"; }
# state: the kernel's last messages, the state of each thread of a program, and undelivered data of the connections; for the
# log of a failed test
state() {
	dmesg | tail -n 20
	for t in /proc/[0-9]*/task/[0-9]*; do
		[ ! -e "$t/exe" ] || echo "$t $(cat "$t/comm"): $(tr '\n' ' ' <"$t/stack")"
	done 2>/dev/null
	netstat -tn
}
