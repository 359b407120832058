// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"time"
)

// Objects of others, straight into etcd by its HTTP gateway: 100,000 take seconds. The API server learns of them by its
// watch, as of every write.

const batch = 100 // of a transaction; etcd takes 128

// name is what the driver and the Go plugin call object i: an attachment by its node and its volume.
func name(i int) string {
	if *plural == "dpuvolumeattachments" {
		return otherNode(i) + "-" + volume(i)
	}
	return volume(i)
}

func otherNode(i int) string { return fmt.Sprintf("other-%d", i%5000) }

func key(i int) string {
	return fmt.Sprintf("/registry/storage.dpu.nvidia.com/%s/%s/%s", *plural, *namespace, name(i))
}

func put(keys []string, values [][]byte) {
	operations := []fields{}
	for i := range keys {
		operations = append(operations, fields{"requestPut": fields{"key": []byte(keys[i]), "value": values[i]}})
	}
	answer, err := http.Post(*etcd+"/v3/kv/txn", "application/json", bytes.NewReader(marshal(fields{"success": operations})))
	must(err)
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		log.Fatalf("etcd: %s %s", answer.Status, text)
	}
}

// like returns a function that makes object i of the template, which is taken from the API server.
func like() func(i, version int) []byte {
	var o map[string]any
	text, err := connect().ask("GET", collection(*plural)+"/"+*template, "", nil)
	must(err)
	must(json.Unmarshal(text, &o))
	metadata, spec := o["metadata"].(map[string]any), o["spec"].(map[string]any)
	delete(metadata, "resourceVersion")
	if !*labelled {
		delete(metadata, "labels")
	}
	return func(i, version int) []byte {
		metadata["name"], metadata["uid"] = name(i), fmt.Sprintf("%08x-0000-4000-9000-%012x", len(*names), i)
		if *plural == "dpuvolumeattachments" {
			of, at := volume(i), otherNode(i)
			spec["dpuVolumeName"], spec["dpuNodeName"] = of, at
			if *labelled {
				labels := metadata["labels"].(map[string]any)
				labels["csi.snap.nvidia.com/volume"], labels["csi.snap.nvidia.com/node"] = of, at
			}
		}
		metadata["generation"] = 1 + version
		return marshal(o)
	}
}

func seed() {
	var group sync.WaitGroup
	made := like()
	turns := 0
	limit := makeTurns(8)
	bytes := 0
	for i := 0; i < *n; i += batch {
		keys, values := []string{}, [][]byte{}
		for j := i; j < i+batch && j < *n; j++ {
			keys, values = append(keys, key(j)), append(values, made(j, 0))
			bytes += len(values[len(values)-1])
		}
		turns++
		<-limit
		group.Go(func() {
			put(keys, values)
			limit <- struct{}{}
		})
	}
	group.Wait()
	say(fields{"n": *n, "bytes_each": bytes / max(*n, 1)})
}

func makeTurns(n int) chan struct{} {
	turns := make(chan struct{}, n)
	for range n {
		turns <- struct{}{}
	}
	return turns
}

// churn changes seeded objects, one after the other, *rate of them per second, and prints what it has changed and for how long.
func churn() {
	made := like()
	began := time.Now()
	end := began.Add(time.Duration(*seconds) * time.Second)
	tick := time.NewTicker(time.Second * batch / time.Duration(*rate))
	for i := 0; *seconds == 0 || time.Now().Before(end); i += batch {
		keys, values := []string{}, [][]byte{}
		for j := i; j < i+batch; j++ {
			keys, values = append(keys, key(j%*n)), append(values, made(j%*n, 1 + j / *n))
		}
		<-tick.C
		put(keys, values)
		if (i+batch) / *rate > i / *rate {
			say(fields{"changes": i + batch, "seconds": time.Since(began).Seconds()})
		}
	}
}
