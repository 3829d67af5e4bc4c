package capi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/loadtest/rack"
	"spillway/loadtest/reference"
	"spillway/wire"
	"spillway/worker"
	"spillway/worker/capi/library"
)

// The codes of the header.
const (
	float32s, int32s, float64s, float16s, bfloat16s = 1, 2, 3, 4, 5
	sum, largest, least, average                    = 0, 1, 2, 3
	missingRanks, deadRanks                         = 6, 16
)

var formats = map[int32]reference.Format{float32s: reference.Float32, float64s: reference.Float64, float16s: reference.Float16, bfloat16s: reference.BFloat16}

// encode is numbers as a type has them in memory.
func encode(dtype int32, x []float64) []byte {
	var b []byte
	for _, v := range x {
		switch dtype {
		case float32s:
			b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case int32s:
			b = binary.NativeEndian.AppendUint32(b, uint32(int32(v)))
		case float64s:
			b = binary.NativeEndian.AppendUint64(b, math.Float64bits(v))
		case float16s:
			b = binary.NativeEndian.AppendUint16(b, uint16(worker.ToFloat16(v)))
		case bfloat16s:
			b = binary.NativeEndian.AppendUint16(b, uint16(worker.ToBFloat16(v)))
		}
	}
	return b
}

// reduced is what an all-reduce must give, by the reference.
func reduced(t *testing.T, dtype, op int32, inputs [][]float64, elements int) []float64 {
	t.Helper()
	if f, float := formats[dtype]; float && (op == sum || op == average) {
		want, err := f.Sum(inputs, elements, op == average)
		if err != nil {
			t.Fatal(err)
		}
		return want
	}
	want := slices.Clone(inputs[0])
	for _, x := range inputs[1:] {
		for i, v := range x {
			switch op {
			case sum:
				want[i] += v
			case largest:
				want[i] = max(want[i], v)
			case least:
				want[i] = min(want[i], v)
			}
		}
	}
	return want
}

// TestReduce: every type with every operation it has, at lengths from one element to many chunks, gives the reference's bits at every rank.
func TestReduce(t *testing.T) { each(t, 3, reduceAll) }

func reduceAll(t *testing.T, r *rack.Rack, variant string) {
	const elements = 256
	workers := r.Workers()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	inputs := make([]bytes.Buffer, workers)
	var want bytes.Buffer
	for _, n := range []int{1, 31, 257, 7000} {
		for dtype := int32(1); dtype <= 5; dtype++ {
			for op := range int32(4) {
				if dtype == int32s && op == average || dtype == float64s && (op == largest || op == least) {
					continue
				}
				values := make([][]float64, workers)
				for rank := range values {
					for range n {
						v := rng.NormFloat64() * math.Ldexp(1, -rng.IntN(8))
						if dtype == int32s {
							v = float64(rng.Int32N(1<<29) - 1<<28)
						} else {
							v = float64(worker.ToBFloat16(v).Float32())
						}
						if dtype == float16s {
							v = float64(worker.ToFloat16(v).Float32())
						}
						values[rank] = append(values[rank], v)
					}
					b := encode(dtype, values[rank])
					for _, head := range []int32{dtype, op, int32(n), int32(len(b))} {
						if err := binary.Write(&inputs[rank], binary.NativeEndian, head); err != nil {
							t.Fatal(err)
						}
					}
					inputs[rank].Write(b)
				}
				want.Write(encode(dtype, reduced(t, dtype, op, values, elements)))
			}
		}
	}
	var files []string
	for rank := range inputs {
		files = append(files, filepath.Join(dir, fmt.Sprint("in", rank)))
		if err := os.WriteFile(files[rank], inputs[rank].Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, start(t, r, rack.Job{Name: "reduce-" + variant, Elements: elements, Window: 64}, variant, "reduce", files...))
	for rank, file := range files {
		got, err := os.ReadFile(file + ".out")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			at := 0
			for at < len(got) && at < want.Len() && got[at] == want.Bytes()[at] {
				at++
			}
			t.Errorf("rank %d: %d bytes differ from the %d of the reference at %d", rank, len(got), want.Len(), at)
		}
	}
}

// TestErrors: what is wrong with arguments, handles, sums and the job is an error that says so.
func TestErrors(t *testing.T) {
	each(t, 2, func(t *testing.T, r *rack.Rack, variant string) {
		all := start(t, r, rack.Job{Name: "errors-" + variant, Window: 64}, variant, "errors")
		for _, want := range []string{"timeout", "pending"} {
			step(t, all[0], want)
			if err := all[1].Send(want[:0]); err != nil {
				t.Fatal(err)
			}
		}
		finish(t, all)
	})
}

// TestProcess: signals, floating-point environment and forks of the calling process.
func TestProcess(t *testing.T) {
	each(t, 2, func(t *testing.T, r *rack.Rack, variant string) {
		all := start(t, r, rack.Job{Name: "process-" + variant, Window: 64}, variant, "process")
		step(t, all[0], "alarms")
		if err := all[1].Send(0); err != nil {
			t.Fatal(err)
		}
		finish(t, all)
	})
}

// TestThreads: sixteen threads of each rank share a worker.
func TestThreads(t *testing.T) {
	each(t, 2, func(t *testing.T, r *rack.Rack, variant string) {
		finish(t, start(t, r, rack.Job{Name: "threads-" + variant, Window: 128}, variant, "threads"))
	})
}

// TestFlat: four thousand all-reduces leave nothing behind.
func TestFlat(t *testing.T) {
	r := newRack(t, 2)
	all := start(t, r, rack.Job{Name: "flat", Window: 64}, "plain", "flat")
	for _, p := range all {
		if said := next(t, p); said.Grown > 4096 || said.Descriptors != 0 {
			t.Errorf("grown by %d KiB and %d descriptors", said.Grown, said.Descriptors)
		} else {
			t.Logf("grown by %d KiB", said.Grown)
		}
	}
	finish(t, all)
}

// TestKilled: when a rank is killed, the others get an error that names it, within the job's silence and some; where the job says when a rank is dead, after that time and with who it was.
func TestKilled(t *testing.T) { each(t, 3, kill) }

func kill(t *testing.T, r *rack.Rack, variant string) {
	const silence, lostAfter = 2 * time.Second, 500 * time.Millisecond
	for _, c := range []struct {
		name string
		job  rack.Job
		code int
		says []string
		most time.Duration
	}{
		{"missing", rack.Job{Silence: silence}, missingRanks, []string{"missing rank 1", "lost its connection"}, silence + 5*time.Second},
		{"dead", rack.Job{Silence: time.Minute, LostAfter: lostAfter}, deadRanks, []string{"rank 1 (" + rack.WorkerAddr(1).String(), "joined again"}, lostAfter + 5*time.Second},
	} {
		c.job.Name, c.job.Window = "killed-"+c.name+"-"+variant, 64
		all := start(t, r, c.job, variant, "killed")
		for _, p := range all {
			step(t, p, "running")
		}
		all[1].Kill()
		begin := time.Now()
		rest := []*rack.Process{all[0], all[2]}
		for _, p := range rest {
			said := next(t, p)
			if said.Code != c.code || said.Ranks != 1<<1 || said.Broken != 1 {
				t.Errorf("%s: %+v", c.name, said)
			}
			for _, words := range c.says {
				if !strings.Contains(said.Text, words) {
					t.Errorf("%s: %q lacks %q", c.name, said.Text, words)
				}
			}
			t.Logf("after %s: %s", time.Since(begin).Round(10*time.Millisecond), said.Text)
		}
		if took := time.Since(begin); took > c.most {
			t.Errorf("%s: it took %s", c.name, took)
		}
		finish(t, rest)
	}
}

var (
	declared   = regexp.MustCompile(`(?m)^[a-z].*\b(spillway_[a-z_]+)\(`)
	enumerated = regexp.MustCompile(`SPILLWAY_([A-Z0-9]+) = (\d+)`)
)

// TestHeader: what the header declares is what the library exports, and its codes are those of the protocol.
func TestHeader(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(built, "spillway.h"))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := symbolsOf(filepath.Join(built, "libspillway.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	if !slices.Equal(names, symbols) || len(names) < 15 {
		t.Errorf("the header declares %v, and the library exports %v", names, symbols)
	}
	codes := map[string]string{}
	for _, m := range enumerated.FindAllStringSubmatch(string(text), -1) {
		codes[m[1]] = m[2]
	}
	for name, want := range map[string]int{
		"FLOAT32": float32s, "INT32": int32s, "FLOAT64": float64s, "FLOAT16": float16s, "BFLOAT16": bfloat16s,
		"SUM": int(wire.Sum), "MAX": int(wire.Max), "MIN": int(wire.Min), "AVG": average, "OK": 0,
	} {
		if codes[name] != fmt.Sprint(want) {
			t.Errorf("SPILLWAY_%s is %s, want %d", name, codes[name], want)
		}
	}
}

// TestLoadedLate: a process that loads the library with dlopen keeps its signals' handlers, its mask and its floating-point environment.
func TestLoadedLate(t *testing.T) {
	program := filepath.Join(t.TempDir(), "late")
	if out, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "testdata/late.c", "-o", program, "-ldl", "-lm", "-pthread").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for range 20 {
		if out, err := exec.Command(program, filepath.Join(built, library.File)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}
