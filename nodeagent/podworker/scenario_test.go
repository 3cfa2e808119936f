package podworker

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into the scenario files")

// TestScenarios plays the files in testdata. A file is blocks of commands,
// "----", and what they print. The commands:
//
//	pod [policy=P] [init=a,+sidecar] [containers=x,y] [grace=N] [deadline=N] [probe=NAME]
//	run               steps until there is nothing to do, printing each action
//	step [N]          the same, at most N steps
//	exit NAME CODE    a container ends
//	lose              the sandbox dies with all in it
//	forget            the agent starts anew: it forgets what the runtime does not know
//	wipe              the runtime forgets everything
//	fail VERB REASON: MESSAGE    the next time
//	probe NAME started|ready|unready|failed
//	image NAME IMAGE  the user changes the image
//	delete N          the user deletes the pod with a grace period
//	purge             the pod is taken out of the API
//	advance D         time passes
//	status            prints the status
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(text), got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	var s *sim
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		var printed strings.Builder
		for line := range strings.SplitSeq(commands, "\n") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			f := strings.Fields(line)
			if f[0] == "pod" {
				s = newSim(parsePod(t, f[1:]))
				continue
			}
			command(t, s, &printed, f, line)
		}
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(commands + "\n----\n" + printed.String())
	}
	return out.String()
}

func parsePod(t *testing.T, args []string) *corev1.Pod {
	t.Helper()
	v := map[string]string{"policy": "Always", "containers": "main"}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		v[name] = value
	}
	list := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
	}
	pod := testPod(corev1.RestartPolicy(v["policy"]), list(v["init"]), list(v["containers"]))
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == v["probe"] {
			c.ReadinessProbe, c.LivenessProbe, c.StartupProbe = &corev1.Probe{}, &corev1.Probe{}, &corev1.Probe{}
		}
	}
	if v["deadline"] != "" {
		n := int64(number(t, v["deadline"]))
		pod.Spec.ActiveDeadlineSeconds = &n
	}
	if v["grace"] != "" {
		n := int64(number(t, v["grace"]))
		pod.Spec.TerminationGracePeriodSeconds = &n
	}
	return pod
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func command(t *testing.T, s *sim, out *strings.Builder, f []string, line string) {
	t.Helper()
	switch f[0] {
	case "run", "step":
		limit := 50
		if len(f) > 1 {
			limit = number(t, f[1])
		}
		for range limit {
			a, wake, err := s.step()
			if err != nil {
				t.Fatalf("%v: %v", a, err)
			}
			fmt.Fprint(out, a)
			if !wake.IsZero() {
				fmt.Fprintf(out, " wake=+%v", wake.Sub(s.now).Round(10*time.Millisecond))
			}
			fmt.Fprintln(out)
			if a.Do == Nothing || a.Do == Done {
				return
			}
		}
	case "exit":
		s.end(s.newest(t, f[1]), int32(number(t, f[2])))
	case "lose":
		b := s.o.newestSandbox()
		b.Ready = false
		for i := range s.o.Containers {
			if c := &s.o.Containers[i]; c.SandboxID == b.ID && c.State == Running {
				s.end(c, 255)
			}
		}
	case "forget":
		s.o.Attempts, s.o.Probes, s.o.Volumes, s.o.SandboxFailure = map[string]Attempt{}, map[string]Probe{}, Volumes{}, Failure{}
	case "wipe":
		s.o.Sandboxes, s.o.Containers = nil, nil
	case "fail":
		for v := range Done {
			if v.String() == f[1] {
				s.fails[v] = append(s.fails[v], strings.Join(f[2:], " "))
				return
			}
		}
		t.Fatalf("no verb %q", f[1])
	case "probe":
		c := s.newest(t, f[1])
		p := s.o.Probes[c.ID]
		switch f[2] {
		case "started":
			p.Started = true
		case "ready", "unready":
			p.Started, p.Ready = true, f[2] == "ready"
		case "failed":
			p.Failed = "Container " + c.Name + " failed liveness probe, will be restarted"
		}
		s.o.Probes[c.ID] = p
	case "image":
		s.spec(f[1]).Image = f[2]
	case "delete":
		n := int64(number(t, f[1]))
		s.pod.DeletionGracePeriodSeconds = &n
		s.pod.DeletionTimestamp = &metav1.Time{Time: s.now.Add(time.Duration(n) * time.Second)}
	case "purge":
		s.o.Gone = true
	case "advance":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(d)
	case "status":
		s.pod.Status = Status(s.pod, s.o, s.now)
		printStatus(out, &s.pod.Status)
	default:
		t.Fatalf("no command %q", line)
	}
}

func (s *sim) newest(t *testing.T, name string) *Container {
	t.Helper()
	all := s.o.instances(name)
	if len(all) == 0 {
		t.Fatalf("no container %q", name)
	}
	return s.container(all[0].ID)
}

func printStatus(out *strings.Builder, s *corev1.PodStatus) {
	fmt.Fprintf(out, "%s ip=%s qos=%s", s.Phase, s.PodIP, s.QOSClass)
	if s.Reason != "" {
		fmt.Fprintf(out, " reason=%s", s.Reason)
	}
	fmt.Fprintln(out)
	for _, c := range s.Conditions {
		if c.Type == corev1.PodScheduled {
			continue
		}
		fmt.Fprintf(out, "  %s=%s", c.Type, c.Status)
		if c.Reason != "" {
			fmt.Fprintf(out, " %s: %s", c.Reason, c.Message)
		}
		fmt.Fprintln(out)
	}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range list {
			fmt.Fprintf(out, "  %s: %s ready=%v started=%v restarts=%d", c.Name, printState(c.State), c.Ready, *c.Started, c.RestartCount)
			if c.LastTerminationState.Terminated != nil {
				fmt.Fprintf(out, " last=%s", printState(c.LastTerminationState))
			}
			fmt.Fprintln(out)
		}
	}
}

func printState(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("terminated(%s %d)", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Waiting.Message != "":
		return fmt.Sprintf("waiting(%s: %s)", s.Waiting.Reason, s.Waiting.Message)
	default:
		return fmt.Sprintf("waiting(%s)", s.Waiting.Reason)
	}
}
