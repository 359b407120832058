// SPDX-License-Identifier: Apache-2.0

// Load on a real API server, for bench.py: calls of the driver (csi), the same work by a client that does nothing else
// (bare), DPF that is ready at once (dpf), objects of others (seed, churn), and a watch that counts bytes (watch). Each prints one line of JSON at its end.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "")
	namespace  = flag.String("namespace", "dpf-operator-system", "")
	socket     = flag.String("socket", "", "csi: the driver's socket")
	etcd       = flag.String("etcd", "http://127.0.0.1:2379", "seed, churn: etcd's address")
	op         = flag.String("op", "create", "csi, bare: create, publish, unpublish or delete")
	names      = flag.String("names", "bench", "volumes are called NAMES-0, NAMES-1, ...")
	n          = flag.Int("n", 100, "operations or objects")
	parallel   = flag.Int("parallel", 1, "operations at a time")
	nodes      = flag.Int("nodes", 50, "nodes are called bench-0, bench-1, ...")
	seconds    = flag.Int("seconds", 0, "csi: deadline of a call (120); churn: for how long, 0 for ever")
	template   = flag.String("template", "", "seed: a stored object that the new ones resemble")
	plural     = flag.String("plural", "dpuvolumeattachments", "seed, churn: the kind of objects")
	labelled   = flag.Bool("labelled", true, "seed: with the template's labels")
	rate       = flag.Int("rate", 2000, "churn: changes per second")
)

func volume(i int) string { return fmt.Sprintf("%s-%d", *names, i) }
func node(i int) string   { return fmt.Sprintf("bench-%d", i%*nodes) }

type result struct {
	N         int     `json:"n"`
	Failed    int     `json:"failed"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
	Most      float64 `json:"most"`
	PerSecond float64 `json:"per_second"`
	Why       string  `json:"why,omitempty"`
}

// measure does(i) for each i, *parallel at a time, and prints what it took, in ms.
func measure(does func(i int) error) {
	var next atomic.Int64
	var mutex sync.Mutex
	var group sync.WaitGroup
	took := make([]float64, 0, *n)
	r := result{N: *n}
	began := time.Now()
	for range *parallel {
		group.Go(func() {
			for i := int(next.Add(1) - 1); i < *n; i = int(next.Add(1) - 1) {
				start := time.Now()
				err := does(i)
				ms := float64(time.Since(start).Microseconds()) / 1000
				mutex.Lock()
				took = append(took, ms)
				if err != nil {
					r.Failed++
					r.Why = err.Error()
				}
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	sort.Float64s(took)
	r.P50, r.P99, r.Most = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	r.PerSecond = float64(*n) / time.Since(began).Seconds()
	say(r)
}

func say(what any) { must(json.NewEncoder(os.Stdout).Encode(what)) }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("load csi|bare|dpf|seed|churn|watch [FLAG...]")
	}
	must(flag.CommandLine.Parse(os.Args[2:]))
	switch os.Args[1] {
	case "csi":
		csiCalls()
	case "bare":
		bareCalls()
	case "dpf":
		playDPF()
	case "seed":
		seed()
	case "churn":
		churn()
	case "watch":
		count()
	default:
		log.Fatal("no such work: ", os.Args[1])
	}
}
