// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"sync"
	"time"
)

// counter counts what one watch brings.
type counter struct {
	sync.Mutex
	bytes, events int
}

func (c *counter) Write(p []byte) (int, error) {
	c.Lock()
	defer c.Unlock()
	c.bytes += len(p)
	for _, b := range p {
		if b == '\n' {
			c.events++
		}
	}
	return len(p), nil
}

// count watches both kinds, and prints what has come so far whenever more has.
func count() {
	a := connect()
	var c counter
	for _, plural := range []string{"dpuvolumes", "dpuvolumeattachments"} {
		body := a.open(plural, a.newest(plural))
		go func() {
			_, err := io.Copy(&c, body)
			must(err)
		}()
	}
	said := -1
	for range time.Tick(200 * time.Millisecond) {
		c.Lock()
		if c.events != said {
			said = c.events
			say(fields{"events": c.events, "bytes": c.bytes})
		}
		c.Unlock()
	}
}
