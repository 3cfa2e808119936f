// Helper is the program of the test image: it does, one after the other, what
// its arguments say, separated by commas that stand alone:
//
//	helper print started , sleep 2s , exit 3
//
// It is a program for containers: what it prints is what it is for.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const usage = `print TEXT...    to standard output
error TEXT...    to standard error
lines N EVERY    N numbered lines, one each EVERY
env              the environment, sorted
id               user, group and supplementary groups
cat FILE...      what is in files
ls DIR           names in a folder
write FILE TEXT  into a file
touch FILE       only if it does not exist, else it fails
sleep FOR        for a time, or "ever"; TERM ends it with 143
deaf FOR         as sleep, but TERM is only reported
eat BYTES        of memory, and keeps it
burn FOR         a CPU
get URL          prints the answer's body; fails if it is not 200
serve ADDR       answers HTTP with the host's name until TERM
echo ADDR        sends back what comes over TCP until TERM
copy             standard input to standard output
exit CODE`

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"sleep", "ever"}
	}
	for len(args) > 0 {
		end := slices.Index(args, ",")
		if end < 0 {
			end = len(args)
		}
		if err := do(args[0], args[1:end]); err != nil {
			fmt.Fprintln(os.Stderr, "helper:", err)
			os.Exit(1)
		}
		args = args[min(end+1, len(args)):]
	}
}

func do(verb string, args []string) error {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch verb {
	case "print":
		fmt.Println(strings.Join(args, " "))
	case "error":
		fmt.Fprintln(os.Stderr, strings.Join(args, " "))
	case "lines":
		n, err := strconv.Atoi(arg(0))
		if err != nil {
			return err
		}
		every, err := time.ParseDuration(arg(1))
		if err != nil {
			return err
		}
		for i := range n {
			fmt.Println("line", i)
			time.Sleep(every) //nolint:forbidigo // as it was told
		}
	case "env":
		env := os.Environ()
		slices.Sort(env)
		fmt.Println(strings.Join(env, "\n"))
	case "id":
		groups, err := os.Getgroups()
		fmt.Printf("uid=%d gid=%d groups=%v\n", os.Getuid(), os.Getgid(), groups)
		return err
	case "cat":
		for _, name := range args {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			os.Stdout.Write(b)
		}
	case "ls":
		list, err := os.ReadDir(arg(0))
		for _, e := range list {
			fmt.Println(e.Name())
		}
		return err
	case "write":
		return os.WriteFile(arg(0), []byte(strings.Join(args[1:], " ")), 0o644)
	case "touch":
		f, err := os.OpenFile(arg(0), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			f.Close()
		}
		return err
	case "sleep", "deaf":
		return sleep(arg(0), verb == "deaf")
	case "eat":
		return eat(arg(0))
	case "burn":
		d, err := time.ParseDuration(arg(0))
		for end := time.Now().Add(d); err == nil && time.Now().Before(end); { //nolint:revive // it is to burn
		}
		return err
	case "get":
		return get(arg(0))
	case "serve":
		return serve(arg(0))
	case "echo":
		return echo(arg(0))
	case "copy":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "exit":
		code, err := strconv.Atoi(arg(0))
		if err != nil {
			return err
		}
		os.Exit(code)
	default:
		return fmt.Errorf("no verb %q; these are known:\n%s", verb, usage)
	}
	return nil
}

func sleep(length string, deaf bool) error {
	var over <-chan time.Time
	if length != "" && length != "ever" {
		d, err := time.ParseDuration(length)
		if err != nil {
			return err
		}
		over = time.After(d)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	for {
		select {
		case <-over:
			signal.Stop(term)
			return nil
		case <-term:
			fmt.Println("got TERM")
			if !deaf {
				os.Exit(143)
			}
		}
	}
}

func eat(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	kept := make([][]byte, 0, n>>20+1)
	for eaten := 0; eaten < n; eaten += 1 << 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		kept = append(kept, b)
	}
	fmt.Println("ate", len(kept), "MiB")
	return sleep("ever", false)
}

func get(url string) error {
	c := http.Client{Timeout: 5 * time.Second}
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

func serve(addr string) error {
	host, _ := os.Hostname()
	server := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		fmt.Fprintln(w, host)
	})}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func echo(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}
