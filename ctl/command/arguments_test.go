package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestArrange(t *testing.T) {
	app := New(Streams{})
	for line, want := range map[string]string{
		"spillctl":                                           "spillctl",
		"spillctl jobs --output json":                        "spillctl --output json jobs",
		"spillctl -o json jobs":                              "spillctl -o json jobs",
		"spillctl slots train --all --addr unix:///x":        "spillctl --addr unix:///x slots --all train",
		"spillctl job create train -n 4 --dry-run":           "spillctl job create -n 4 --dry-run train",
		"spillctl --workers 4 job create train":              "spillctl job create --workers 4 train",
		"spillctl job --timeout=1s create train --workers=4": "spillctl --timeout=1s job create --workers=4 train",
		"spillctl job create --tor -n train":                 "spillctl job create --tor -n train", // a value may look like an option, as in the library
		"spillctl job show -- -train":                        "spillctl job show -- -train",
		"spillctl job show -- jobs":                          "spillctl job show jobs",
		"spillctl jobs --nonsense train":                     "spillctl jobs --nonsense train",
		"spillctl -h job create":                             "spillctl job create -h",
		"spillctl help job":                                  "spillctl help job",
		"spillctl workers jobs":                              "spillctl workers jobs", // a job may be called as a command is
		"spillctl jobs --addr --generate-bash-completion":    "spillctl jobs --addr --generate-bash-completion",
	} {
		if got := arrange(app, strings.Fields(line)); strings.Join(got, " ") != want {
			t.Errorf("%s\ngot  %s\nwant %s", line, strings.Join(got, " "), want)
		}
	}
}

// TestOptionsAgree: an option takes a value in all commands or in none, and no command has an option of the app, so that it can stand anywhere on the line.
func TestOptionsAgree(t *testing.T) {
	app := New(Streams{})
	takes := map[string]bool{}
	var walk func(commands []*cli.Command)
	walk = func(commands []*cli.Command) {
		for _, command := range commands {
			for _, flag := range command.Flags {
				for _, name := range flag.Names() {
					if lookUp(app.Flags, name) != nil {
						t.Errorf("%s has the app's option %s", command.Name, name)
					}
					if known, ok := takes[name]; ok && known != takesValue(flag) {
						t.Errorf("%s: the option %s takes a value elsewhere, or here alone", command.Name, name)
					}
					takes[name] = takesValue(flag)
				}
			}
			walk(command.Subcommands)
		}
	}
	walk(app.Commands)
}

// TestEveryCommandTeaches: usage, a description, and an example that begins with the command itself.
func TestEveryCommandTeaches(t *testing.T) {
	var walk func(commands []*cli.Command, path string)
	walk = func(commands []*cli.Command, path string) {
		for _, command := range commands {
			name := path + " " + command.Name
			if command.Usage == "" {
				t.Errorf("%s has no usage", name)
			}
			if len(command.Subcommands) > 0 {
				walk(command.Subcommands, name)
				continue
			}
			if !command.Hidden && !strings.HasPrefix(name, "spillctl docs") && !strings.Contains(command.Description, "  "+name) {
				t.Errorf("%s shows no example", name)
			}
			for _, line := range strings.Split(command.Description, "\n") {
				if len([]rune(line)) > 110 {
					t.Errorf("%s: a line of %d characters", name, len([]rune(line)))
				}
			}
		}
	}
	walk(New(Streams{}).Commands, "spillctl")
}

func TestManPage(t *testing.T) {
	page, err := ManPage()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".TH spillctl 1", "spillctl job create [options] JOB", "4 there is no such job"} {
		if !strings.Contains(page, want) {
			t.Errorf("the man page does not have %q", want)
		}
	}
	if i := slices.Index(strings.Split(page, "\n"), ".SH docs"); i >= 0 {
		t.Error("the man page has the hidden command")
	}
}
