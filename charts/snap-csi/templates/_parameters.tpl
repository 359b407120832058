{{/* A class of .Values.storageClasses: refuses parameters that the driver would refuse, as src/volume/volume_params.c and
param_meant.c do. That would be CreateVolume's answer, in the events of the first claim. */}}
{{- define "snap-csi.check-parameters" -}}
{{- $class := . -}}
{{- $prefix := "csi.snap.nvidia.com/" -}}
{{- $filesystems := dict "blockSize" "ext4 ext3 xfs" "inodeSize" "ext4 ext3 xfs" "bytesPerInode" "ext4 ext3" "numberOfInodes" "ext4 ext3" "ext4BigAlloc" "ext4" "ext4ClusterSize" "ext4" "formatPolicy" "" "emulation" "" "ioScheduler" "" "nrRequests" "" "readAheadKb" "ext4 ext3 xfs" "rqAffinity" "" "encryption" "" "encryptionKdf" "" "allowDiscards" "" -}}
{{- $known := list "policy" "functionType" "hotplugFunction" "csi.storage.k8s.io/fstype" -}}
{{- range keys $filesystems | sortAlpha }}{{ $known = append $known (print $prefix .) }}{{ end -}}
{{- $fs := $class.fsType | default "ext4" -}}
{{- range $key, $value := $class.parameters }}
{{- $where := printf "storageClasses: %s: parameters: %s:" $class.name $key -}}
{{- if has $key $known -}}
{{- $name := trimPrefix $prefix $key -}}
{{- if eq $class.kind "virtiofs" -}}
{{- fail (printf "%s has no meaning with virtiofs, which is never formatted and has no disk; leave it out" $where) -}}
{{- end -}}
{{- with get $filesystems $name -}}
{{- if not (has $fs (splitList " " .)) -}}
{{- fail (printf "%s has no meaning for %s; leave it out" $where $fs) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- $own := regexFind "[^/]*$" $key -}}
{{- $of := trimSuffix $own $key | lower -}}
{{- if or (not $of) (contains "snap" $of) (contains "nvidia" $of) -}}
{{- range $known -}}
{{- if regexMatch (include "snap-csi.slips" (regexFind "[^/]*$" .)) $own -}}
{{- fail (printf "%s no such key; write %s, or put a vendor's parameter of that name into the DPUStoragePolicy" $where .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if hasPrefix $prefix $key -}}
{{- fail (printf "%s no such key; those of this driver are: %s" $where (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $given := $class.parameters | default dict -}}
{{- if get $given (print $prefix "encryption") -}}
{{- range $call := ternary (list "node-stage" "node-expand") (list "node-stage") ($class.allowVolumeExpansion | default false) -}}
{{- range list "name" "namespace" -}}
{{- $key := printf "csi.storage.k8s.io/%s-secret-%s" $call . -}}
{{- if not (get $given $key) -}}
{{- fail (printf "storageClasses: %s: parameters: %sencryption: needs %s, or kubelet passes no passphrase to the driver" $class.name $prefix $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- range list "encryptionKdf" "allowDiscards" -}}
{{- if get $given (print $prefix .) -}}
{{- fail (printf "storageClasses: %s: parameters: %s%s: needs %sencryption: luks2" $class.name $prefix . $prefix) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $number := dict -}}
{{- range keys $filesystems }}{{ $_ := set $number . (get $given (print $prefix .) | int64) }}{{ end -}}
{{- $block := $number.blockSize | default 4096 | int64 -}}
{{- $most := eq $fs "xfs" | ternary (div $block 2) $block -}}
{{- $at := printf "storageClasses: %s: parameters: %s" $class.name $prefix -}}
{{- if or (gt $number.inodeSize $most) (and (eq $fs "xfs") $number.inodeSize (lt $number.inodeSize 256)) -}}
{{- fail (printf "%sinodeSize: %d is not from %d to %d, those of %s with blocks of %d bytes" $at $number.inodeSize (eq $fs "xfs" | ternary 256 128) $most $fs $block) -}}
{{- end -}}
{{- if and $number.bytesPerInode $number.numberOfInodes -}}
{{- fail (printf "%snumberOfInodes: bytesPerInode is also set, but they exclude each other" $at) -}}
{{- end -}}
{{- if $number.ext4ClusterSize -}}
{{- if not (has (get $given (print $prefix "ext4BigAlloc")) (list "1" "t" "T" "true" "TRUE" "True")) -}}
{{- fail (printf "%sext4ClusterSize: needs ext4BigAlloc: \"true\"" $at) -}}
{{- end -}}
{{- if le $number.ext4ClusterSize $block -}}
{{- fail (printf "%sext4ClusterSize: must be more than the block size, %d" $at $block) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A name: the expression of what is at most one letter away from it. */}}
{{- define "snap-csi.slips" -}}
{{- $name := . -}}{{- $n := len . -}}
{{- $all := list (print "." .) (print . ".") -}}
{{- range $i := until $n -}}
{{- $before := substr 0 $i $name -}}{{- $after := substr (int (add $i 1)) $n $name -}}
{{- $all = append $all (print $before ".?" $after) -}}
{{- $all = append $all (print $before "." (substr $i $n $name)) -}}
{{- if lt (add $i 1) $n -}}
{{- $all = append $all (print $before (substr (int (add $i 1)) (int (add $i 2)) $name) (substr $i (int (add $i 1)) $name) (substr (int (add $i 2)) $n $name)) -}}
{{- end -}}
{{- end -}}
(?i)^({{ join "|" $all }})$
{{- end -}}
