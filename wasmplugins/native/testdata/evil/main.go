// Command evil is a guest that misbehaves the way its settings say.
package main

import (
	"os"
	"time"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func main() {}

var how string

func init() {
	guest.OnConfigure(func(v guest.Value) error { how = v.Text(); return nil })
	guest.OnAdmit(func(*guest.Request) guest.Answer {
		switch how {
		case "spin":
			for n := 0; ; n++ {
				sink = n
			}
		case "recurse":
			sink = recurse(1)
		case "hoard":
			for {
				hoard = append(hoard, make([]byte, 1<<20))
			}
		case "panic":
			panic("as told")
		case "exit":
			os.Exit(7)
		case "sleep":
			time.Sleep(time.Hour)
		case "deadlock":
			<-make(chan int)
		}
		return guest.Allow()
	})
}

var (
	sink  int
	hoard [][]byte
)

func recurse(n int) int { return recurse(n+1) + sink }
