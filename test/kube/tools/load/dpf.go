// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log"
	"strings"
	"time"
)

// DPF that is ready at once: one PATCH of the status makes a volume Bound and an attachment attached. A volume with
// "never" in its name stays as it is.

func conditions(types ...string) []fields {
	all := []fields{}
	for _, t := range types {
		all = append(all, fields{"type": t, "status": "True", "reason": "Success", "message": "",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
	}
	return all
}

func volumeStatus(name string) fields {
	vendor := fields{"name": "pvc-" + name, "namespace": *namespace}
	return fields{"phase": "Bound", "conditions": conditions("DPUVolumeReconciled", "Scheduled", "Bound", "Ready"), "state": fields{
		"selectedDPUStorageVendorName": "example-vendor", "storageVendorPluginName": "example-vendor-plugin",
		"persistentVolumeClaimRef": vendor, "volumeInfo": fields{"volumeName": "pv-" + name,
			"capacity": fields{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"}, "volumeMode": "Block"}}}
}

func attachmentStatus(i int) fields {
	return fields{"controllerAttached": true, "dpuAttached": true, "conditions": conditions("DPUVolumeAttachmentReconciled",
		"ControllerAttached", "DPUAttached", "Ready"), "dpu": fields{
		"pciAddress": fmt.Sprintf("0000:%02x:00.2", 16+i%200), "funcVUID": "MT2000X00001VFS0D0F0VF1", "deviceName": "nvme0n1",
		"nvmeAttrs": fields{"namespaceID": 1 + i, "namespaceUUID": fmt.Sprintf("00000000-0000-4000-8000-%012x", i)}}}
}

func playDPF() {
	a := connect()
	turns := make(chan func(), 100000)
	serve := func(plural string, is func(o object) bool, status func(name string) fields) {
		a.watch(plural, func(e event) {
			name := e.Object.Metadata.Name
			if e.Type != "ADDED" || is(e.Object) || strings.Contains(name, "never") {
				return
			}
			turns <- func() {
				_, err := a.ask("PATCH", collection(plural)+"/"+name+"/status", "application/merge-patch+json",
					marshal(fields{"status": status(name)}))
				if err != nil {
					log.Print(err)
				}
			}
		})
	}
	i := 0
	serve("dpuvolumes", func(o object) bool { return o.Status.Phase == "Bound" }, volumeStatus)
	serve("dpuvolumeattachments", func(o object) bool { return o.Status.Attached }, func(string) fields {
		return attachmentStatus(i)
	})
	for range 63 {
		go func() {
			for turn := range turns {
				turn()
			}
		}()
	}
	say(fields{"ready": true})
	for turn := range turns {
		turn()
	}
}
