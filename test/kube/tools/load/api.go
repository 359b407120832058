// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

// api is a client of the API server: HTTP/2 over TLS, one connection.
type api struct {
	http          *http.Client
	server, token string
}

type object struct {
	Message  string `json:"message"` // of a Status
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		Phase    string `json:"phase"`
		Attached bool   `json:"dpuAttached"`
	} `json:"status"`
}

type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// connect reads a kubeconfig as api_lab.py writes it: JSON, one cluster, one user.
func connect() *api {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     string `json:"certificate-authority"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token       string `json:"token"`
				Certificate string `json:"client-certificate"`
				Key         string `json:"client-key"`
			} `json:"user"`
		} `json:"users"`
	}
	text, err := os.ReadFile(*kubeconfig)
	must(err)
	must(json.Unmarshal(text, &config))
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	ca, err := os.ReadFile(cluster.CA)
	must(err)
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	trust.RootCAs.AppendCertsFromPEM(ca)
	if user.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(user.Certificate, user.Key)
		must(err)
		trust.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	return &api{http: &http.Client{Transport: transport}, server: cluster.Server, token: user.Token}
}

func collection(plural string) string {
	return fmt.Sprintf("/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/%s/%s", *namespace, plural)
}

func (a *api) send(method, path, content string, body []byte) (*http.Response, error) {
	q, err := http.NewRequest(method, a.server+path, bytes.NewReader(body))
	must(err)
	q.Header.Set("User-Agent", "load-"+os.Args[1])
	if body != nil {
		q.Header.Set("Content-Type", content)
	}
	if a.token != "" {
		q.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.http.Do(q)
}

// ask returns the answer's body; an answer that is no success is an error.
func (a *api) ask(method, path, content string, body []byte) ([]byte, error) {
	answer, err := a.send(method, path, content, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %.200s", method, path, answer.Status, text)
	}
	return text, err
}

// newest is where a watch of the collection begins.
func (a *api) newest(plural string) string {
	var list object
	text, err := a.ask("GET", collection(plural)+"?limit=1", "", nil)
	must(err)
	must(json.Unmarshal(text, &list))
	return list.Metadata.ResourceVersion
}

// open opens a watch behind a place. An API server whose kinds are new refuses watches with 429 for some seconds.
func (a *api) open(plural, at string) io.ReadCloser {
	for {
		answer, err := a.send("GET", collection(plural)+"?watch=1&resourceVersion="+at, "", nil)
		must(err)
		if answer.StatusCode == http.StatusOK {
			return answer.Body
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusTooManyRequests {
			log.Fatal("watch: ", answer.Status)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// watch calls got for each event from now on, in a goroutine of its own. One that the server ends begins again.
func (a *api) watch(plural string, got func(e event)) {
	first := a.newest(plural)
	begun := make(chan struct{})
	go func() {
		for at := first; ; begun = nil {
			at = a.watchOnce(plural, at, begun, got)
		}
	}()
	<-begun
}

// watchOnce returns where the next watch begins.
func (a *api) watchOnce(plural, at string, begun chan struct{}, got func(e event)) string {
	body := a.open(plural, at)
	defer body.Close()
	if begun != nil {
		close(begun)
	}
	for events := json.NewDecoder(body); ; {
		var e event
		if err := events.Decode(&e); err != nil {
			log.Print("watch: ", err)
			return at
		}
		if e.Type == "ERROR" {
			log.Fatal("watch: ", e.Object.Message)
		}
		at = e.Object.Metadata.ResourceVersion
		got(e)
	}
}
