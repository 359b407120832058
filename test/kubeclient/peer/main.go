// SPDX-License-Identifier: Apache-2.0

// What an API server is to a client: Go's own HTTPS server with HTTP/2. Its answers have no
// Content-Length, and the end of an answer may stand on its last bytes.
//
//	peer DIR NAME PORT    serves 127.0.0.1:PORT with the certificate DIR/NAME.pem, DIR/NAME.key
//
//	/answer?n=BYTES&piece=BYTES&wait=US&pause=US    an answer in pieces: the first after `wait`, each
//	                                                further one after `pause`, which flushes
//	/watch                                          an answer that begins and does not end
package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

var fill = bytes.Repeat([]byte("x"), 1<<20)

func answer(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	number := func(name string) int {
		value, _ := strconv.Atoi(query.Get(name))
		return value
	}
	left, piece, pause := number("n"), number("piece"), time.Duration(number("pause"))
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	time.Sleep(time.Duration(number("wait")) * time.Microsecond)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Audit-Id", "00000000-0000-0000-0000-000000000000")
	for left > 0 {
		n := min(left, piece)
		if _, err := w.Write(fill[:n]); err != nil {
			return
		}
		left -= n
		if pause > 0 && left > 0 {
			w.(http.Flusher).Flush()
			time.Sleep(pause * time.Microsecond)
		}
	}
}

func watch(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: peer DIR NAME PORT")
	}
	http.HandleFunc("/answer", answer)
	http.HandleFunc("/watch", watch)
	pair := os.Args[1] + "/" + os.Args[2]
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+os.Args[3], pair+".pem", pair+".key", nil))
}
