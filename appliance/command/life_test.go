package command_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "spillway/appliance/api/spillway/v1"
)

// create admits a job for both workers.
func (l *lab) create(name string) *v1.Job {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	created, err := v1.NewJobServiceClient(l.dial()).CreateJob(ctx, &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: name, Workers: 2}})
	l.must(err)
	return created.GetJob()
}

func (l *lab) job(name string) *v1.Job {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	got, err := v1.NewJobServiceClient(l.dial()).GetJob(ctx, &v1.GetJobRequest{Name: name})
	l.must(err)
	return got.GetJob()
}

// join starts both workers of a job.
func (l *lab) join(job string) []*process {
	l.Helper()
	var workers []*process
	for rank, ns := range l.workers {
		workers = append(workers, l.start(ns, "worker", "/proc/self/exe", nil, l.socket(), job, strconv.Itoa(rank), workerAddress(rank)))
	}
	return workers
}

// progress waits until each worker has done some more reductions.
func progress(workers []*process, more int) {
	for _, w := range workers {
		for range more {
			w.line("summed ")
		}
	}
}

// finish lets the workers end, and wants them to end well.
func finish(l *lab, workers []*process) {
	l.Helper()
	for _, w := range workers {
		w.finish()
	}
	for rank, w := range workers {
		if code := w.code(); code != 0 {
			l.Errorf("rank %d ended with code %d: %s", rank, code, w.stderr.String())
		}
	}
}

func TestLife(t *testing.T) {
	l := newLab(t)
	l.configure()
	d := l.run("SPILLWAYD_CONFIG=/nowhere")
	for range 3 {
		d.hear("WATCHDOG=1")
	}
	l.create("train")
	workers := l.join("train")
	progress(workers, 3)
	d.hear("STATUS=1 job (1 running), 2 workers")

	if node := l.node(); node.GetName() != "lab" || node.GetAdopted() || node.GetWorkersPresent() != 2 || len(node.GetWarnings()) != 0 ||
		len(node.GetInterfaces()) != 1 || node.GetInterfaces()[0].GetMode() != "native" || !node.GetInterfaces()[0].GetUp() {
		t.Errorf("the node says of itself: %v", node)
	}
	if code, body := l.get("/metrics"); code != 200 || !strings.Contains(body, `spillway_workers{job="train",state="present"} 2`) ||
		!strings.Contains(body, `spillway_join_wait_seconds_count 2`) || !strings.Contains(body, `spillway_api_calls_total{code="OK",method="spillway.v1.JobService/CreateJob"} 1`) {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	if code, body := l.get("/healthz"); code != 200 {
		t.Errorf("healthz: %d %s", code, body)
	}
	finish(l, workers)

	d.signal(syscall.SIGHUP)
	if got := d.hear("RELOADING=1"); !strings.Contains(got, "\nMONOTONIC_USEC=") {
		t.Errorf("it reloads with %q: the time is missing", got)
	}
	d.hear("READY=1")

	d.signal(syscall.SIGTERM)
	d.hear("STOPPING=1")
	if code := d.code(); code != 0 {
		t.Errorf("code %d: %s", code, d.stderr.String())
	}
	if l.attached() == 0 {
		t.Error("the data plane went with the daemon")
	}
	if again := l.run(); !l.node().GetAdopted() {
		t.Errorf("the next daemon does not adopt the data plane: %s", again.stderr.String())
	}
	if job := l.job("train"); job.GetGeneration() != 1 {
		t.Errorf("the job after a restart: %v", job)
	}
}

// TestRestart: a daemon goes away and another comes while workers reduce. They reduce on while there is none, and no sum is wrong.
func TestRestart(t *testing.T) {
	for name, end := range map[string]syscall.Signal{"term": syscall.SIGTERM, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.configure()
			d := l.run()
			l.create("train")
			workers := l.join("train")
			progress(workers, 3)
			program := l.attached()

			d.signal(end)
			if code := d.code(); end == syscall.SIGTERM && code != 0 {
				t.Errorf("code %d: %s", code, d.stderr.String())
			}
			if got := l.attached(); got != program {
				t.Fatalf("program %d is on the interface, it was %d", got, program)
			}
			for _, w := range workers { // what was said before the end does not count
				for range len(w.lines) {
					<-w.lines
				}
			}
			progress(workers, 5)

			// Another program file: the package manager replaces it while the daemon is away.
			copied := filepath.Join(l.dir, "spillwayd")
			l.copySelf(copied)
			d = l.launch(copied, nil, "run", "--config", l.config())
			d.hear("READY=1")
			if node := l.node(); !node.GetAdopted() || l.attached() != program {
				t.Errorf("the data plane was not taken over: %v", node)
			}
			l.eventually("both workers are present again", func() bool {
				job := l.job("train")
				return job.GetPresent() == 2 && job.GetState() == v1.JobState_JOB_STATE_RUNNING
			})
			progress(workers, 3)
			finish(l, workers)
			if job := l.job("train"); job.GetGeneration() != 1 {
				t.Errorf("the generation is %d: the workers began again", job.GetGeneration())
			}
		})
	}
}

// TestReboot: the host loses its data plane and its daemon at once, as in a reboot. The job comes back from the state file, and the workers,
// which have all that it takes, complete the reduction that they were in.
func TestReboot(t *testing.T) {
	l := newLab(t)
	l.configure()
	d := l.run()
	l.create("train")
	workers := l.join("train")
	progress(workers, 3)
	d.signal(syscall.SIGKILL)
	d.code()
	if code, said := l.command("detach", "--config", l.config()); code != 0 || l.attached() != 0 {
		t.Fatalf("code %d: %s", code, said)
	}
	for _, w := range workers { // what was said before does not count
		for range len(w.lines) {
			<-w.lines
		}
	}
	l.run()
	if l.node().GetAdopted() {
		t.Error("something was left to adopt")
	}
	progress(workers, 3)
	l.eventually("both workers are present again", func() bool { return l.job("train").GetPresent() == 2 })
	if job := l.job("train"); job.GetGeneration() != 1 {
		t.Errorf("generation %d: the workers began again", job.GetGeneration())
	}
	finish(l, workers)
}

func (l *lab) copySelf(to string) {
	l.Helper()
	from, err := os.Open("/proc/self/exe")
	l.must(err)
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	l.must(err)
	_, err = io.Copy(file, from)
	l.must(err)
	l.must(file.Close())
}
