package packaging

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"spillway/appliance/config"
	"spillway/appliance/metrics"
)

// repository is the directory of the sources.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReproducible: the same sources give the same bytes, and the package of each architecture is what dpkg takes for one.
func TestReproducible(t *testing.T) {
	for _, architecture := range Architectures() {
		var first []byte
		times := 1 // the other architecture's compilation is the longest part of it
		if architecture == runtime.GOARCH {
			times = 2
		}
		for range times {
			path, err := Build(t.Context(), Options{Repository: repository(t), Out: t.TempDir(), Architecture: architecture, Version: "1.2.3"})
			if err != nil {
				t.Fatal(err)
			}
			if name := filepath.Base(path); name != "spillway_1.2.3_"+architecture+".deb" {
				t.Errorf("the package is called %s", name)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if first != nil && !bytes.Equal(first, text) {
				t.Errorf("%s: two packages of the same sources differ", architecture)
			}
			if first == nil {
				examine(t, path, architecture)
			}
			first = text
		}
	}
}

// examine has dpkg read a package.
func examine(t *testing.T, path, architecture string) {
	t.Helper()
	ask := func(args ...string) string {
		out, err := exec.Command("dpkg-deb", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg-deb %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for field, want := range map[string]string{"Package": "spillway", "Version": "1.2.3", "Architecture": architecture} {
		if got := strings.TrimSpace(ask("--field", path, field)); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	root := t.TempDir()
	ask("--raw-extract", path, root)
	if conffiles, err := os.ReadFile(filepath.Join(root, "DEBIAN/conffiles")); err != nil || string(conffiles) != config.DefaultPath+"\n" {
		t.Errorf("conffiles are %q (%v)", conffiles, err)
	}
	for _, it := range contents {
		info, err := os.Stat(filepath.Join(root, it.to))
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Size() == 0 {
			t.Errorf("%s is empty", it.to)
		}
	}
	if architecture != runtime.GOARCH {
		return
	}
	for _, program := range []string{"usr/sbin/spillwayd", "usr/bin/spillctl"} {
		out, err := exec.Command(filepath.Join(root, program), "version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "1.2.3") {
			t.Errorf("%s version: %v\n%s", program, err, out)
		}
	}
	// The configuration that comes with it has the one thing wrong that only an operator can put right.
	out, err := exec.Command(filepath.Join(root, "usr/sbin/spillwayd"), "check", "--file-only", filepath.Join(root, config.DefaultPath)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "interfaces: the aggregator has no interface") || strings.Count(string(out), "\n") > 2 {
		t.Errorf("spillwayd check says %v\n%s", err, out)
	}
}

func TestEpoch(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if when, err := epoch(); err != nil || when.Unix() != 1700000000 {
		t.Errorf("%v, %v", when, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := epoch(); err == nil {
		t.Error("yesterday is taken for a number of seconds")
	}
}

// TestManPages: each has its name, its section, and what is looked up in it.
func TestManPages(t *testing.T) {
	b := &build{Options: Options{Repository: repository(t)}, ctx: t.Context()}
	for path, wants := range map[string][]string{
		"/usr/share/man/man8/spillwayd.8.gz":      {".TH spillwayd 8", "detach", "check", "--config"},
		"/usr/share/man/man1/spillctl.1.gz":       {".TH spillctl 1", "doctor", "--output"},
		"/usr/share/man/man5/spillwayd.yaml.5.gz": {"spillwayd.yaml", "5", "jobs.quota.memory", "239.77.0.0/16"},
	} {
		i := slices.IndexFunc(contents, func(it item) bool { return it.to == path })
		if i < 0 {
			t.Errorf("there is no %s", path)
			continue
		}
		zipped, err := contents[i].text(b)
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(strings.ReplaceAll(string(text), `\`, ""), want) { // roff escapes what is no letter
				t.Errorf("%s does not have %s:\n%s", path, want, text)
			}
		}
	}
}

// TestScripts: what shells run, they can read.
func TestScripts(t *testing.T) {
	b := &build{Options: Options{Repository: repository(t)}, ctx: t.Context()}
	read := func(shell, name string, text []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		text, err := File(name)
		read("sh", name, text, err)
	}
	for _, it := range contents {
		if strings.Contains(it.to, "/bash-completion/") {
			text, err := it.text(b)
			read("bash", it.to, text, err)
		}
	}
}

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `(spillway_[a-z0-9_]+)` \\| ([a-z]+) \\| ([^|]*) \\|")
	metricName = regexp.MustCompile(`spillway_[a-z0-9_]+`)
	// aLabel is a name in a selector, or in what sums are grouped by.
	selector = regexp.MustCompile(`(spillway_[a-z0-9_]+)\{([^}]*)\}`)
	aMatcher = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
)

// TestDashboard: every metric that the Grafana dashboard asks for is documented, with the labels that it is asked for by; and the most of them are shown.
func TestDashboard(t *testing.T) {
	text, err := File("grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID    string
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct {
				Expr string
			}
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, match := range metricRow.FindAllStringSubmatch(metrics.Table(), -1) {
		known[match[1]] = match[3]
		if match[2] == "histogram" {
			known[match[1]+"_bucket"] = match[3] + "`le`"
		}
	}
	if len(known) < 20 {
		t.Fatalf("the table of metrics has %d", len(known))
	}
	taken := map[string]string{}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d is another panel's", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := fmt.Sprint(p.GridPos.X+x, ",", p.GridPos.Y+y)
				if other, twice := taken[cell]; twice {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[cell] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				if _, ok := known[name]; !ok {
					t.Errorf("%s: there is no metric %s", p.Title, name)
				}
			}
			for _, match := range selector.FindAllStringSubmatch(target.Expr, -1) {
				for _, label := range aMatcher.FindAllStringSubmatch(match[2], -1) {
					// The label of the scrape, which Prometheus adds.
					if label[1] != "instance" && !strings.Contains(known[match[1]], "`"+label[1]+"`") {
						t.Errorf("%s: %s has no label %s", p.Title, match[1], label[1])
					}
				}
			}
		}
	}
	if dashboard.UID == "" || len(dashboard.Panels) < 10 {
		t.Errorf("%d panels, uid %q", len(dashboard.Panels), dashboard.UID)
	}
}
