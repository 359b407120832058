// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"log"
	"sync"
)

// The least that an operation can be: one request, and its object's event in one watch.

// waits are the names whose event somebody waits for.
type waits struct {
	sync.Mutex
	names map[string]chan struct{}
}

func (w *waits) open(name string) chan struct{} {
	w.Lock()
	defer w.Unlock()
	w.names[name] = make(chan struct{})
	return w.names[name]
}

func (w *waits) done(name string) {
	w.Lock()
	defer w.Unlock()
	if c := w.names[name]; c != nil {
		close(c)
		delete(w.names, name)
	}
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	must(err)
	return text
}

type fields map[string]any

// The objects are as the driver writes them.
func volumeObject(name string) []byte {
	return marshal(fields{
		"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolume",
		"metadata": fields{"name": name, "labels": fields{"app.kubernetes.io/managed-by": "csi.snap.nvidia.com"},
			"annotations": fields{"csi.snap.nvidia.com/name": name, "csi.snap.nvidia.com/access-type": "block",
				"csi.snap.nvidia.com/function-type": "vf", "csi.snap.nvidia.com/hotplug-function": "false"}},
		"spec": fields{"dpuStoragePolicyName": "example-policy", "accessModes": []string{"ReadWriteOnce"},
			"resources": fields{"requests": fields{"storage": "1Gi"}}, "volumeMode": "Block"}})
}

func attachmentObject(name, volume, node string) []byte {
	return marshal(fields{
		"apiVersion": "storage.dpu.nvidia.com/v1alpha1", "kind": "DPUVolumeAttachment",
		"metadata": fields{"name": name, "labels": fields{"app.kubernetes.io/managed-by": "csi.snap.nvidia.com",
			"csi.snap.nvidia.com/volume": volume, "csi.snap.nvidia.com/node": node}},
		"spec": fields{"dpuNodeName": node, "dpuVolumeName": volume, "functionType": "vf", "hotplugFunction": false}})
}

func bareCalls() {
	w := waits{names: map[string]chan struct{}{}}
	a := connect()
	kind, ends := "dpuvolumes", func(e event) bool { return e.Type == "DELETED" }
	switch *op {
	case "create":
		ends = func(e event) bool { return e.Object.Status.Phase == "Bound" }
	case "publish":
		kind, ends = "dpuvolumeattachments", func(e event) bool { return e.Object.Status.Attached }
	case "unpublish":
		kind = "dpuvolumeattachments"
	case "delete":
	default:
		log.Fatal("no such operation: ", *op)
	}
	a.watch(kind, func(e event) {
		if ends(e) {
			w.done(e.Object.Metadata.Name)
		}
	})
	measure(func(i int) error {
		var err error
		name := volume(i)
		if kind != "dpuvolumes" {
			name = fmt.Sprintf("%s-%s", node(i), name)
		}
		done := w.open(name)
		switch *op {
		case "create":
			_, err = a.ask("POST", collection(kind), "application/json", volumeObject(name))
		case "publish":
			_, err = a.ask("POST", collection(kind), "application/json", attachmentObject(name, volume(i), node(i)))
		default:
			_, err = a.ask("DELETE", collection(kind)+"/"+name, "", nil)
		}
		if err == nil {
			<-done
		}
		return err
	})
}
