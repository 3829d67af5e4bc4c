package packaging

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/goreleaser/nfpm/v2/files"

	daemon "spillway/appliance/command"
	ctl "spillway/ctl/command"
)

//go:embed files
var embedded embed.FS

// item is a file of the package.
type item struct {
	to     string
	mode   fs.FileMode
	config bool // a conffile: an operator's changes survive an upgrade
	text   func(*build) ([]byte, error)
}

// contents is all that is in the package.
var contents = []item{
	{to: "/usr/sbin/spillwayd", mode: 0o755, text: binary("spillwayd")},
	{to: "/usr/bin/spillctl", mode: 0o755, text: binary("spillctl")},
	{to: "/usr/lib/systemd/system/spillwayd.service", text: file("spillwayd.service")},
	{to: "/usr/lib/sysusers.d/spillway.conf", text: file("sysusers.conf")},
	{to: "/usr/lib/tmpfiles.d/spillway.conf", text: file("tmpfiles.conf")},
	{to: "/etc/spillway/spillwayd.yaml", config: true, text: file("spillwayd.yaml")},
	{to: "/usr/share/man/man8/spillwayd.8.gz", text: zipped(func(*build) ([]byte, error) { return roff(daemon.ManPage()) })},
	{to: "/usr/share/man/man1/spillctl.1.gz", text: zipped(func(*build) ([]byte, error) { return roff(ctl.ManPage()) })},
	{to: "/usr/share/man/man5/spillwayd.yaml.5.gz", text: zipped(manOfConfiguration)},
	{to: "/usr/share/bash-completion/completions/spillwayd", text: file("spillwayd.bash")},
	{to: "/usr/share/bash-completion/completions/spillctl", text: completion("bash")},
	{to: "/usr/share/zsh/vendor-completions/_spillwayd", text: file("spillwayd.zsh")},
	{to: "/usr/share/zsh/vendor-completions/_spillctl", text: completion("zsh")},
	{to: "/usr/share/fish/vendor_completions.d/spillwayd.fish", text: file("spillwayd.fish")},
	{to: "/usr/share/fish/vendor_completions.d/spillctl.fish", text: completion("fish")},
	{to: "/usr/share/spillway/grafana-dashboard.json", text: file("grafana-dashboard.json")},
	{to: "/usr/share/doc/spillway/copyright", text: copyright},
	{to: "/usr/share/doc/spillway/configuration.md", text: source("docs/configuration.md")},
}

// File is one of the files of the package that no program makes, by its name in files/.
func File(name string) ([]byte, error) { return embedded.ReadFile("files/" + name) }

func file(name string) func(*build) ([]byte, error) {
	return func(*build) ([]byte, error) { return File(name) }
}

// source is a file of the repository.
func source(path string) func(*build) ([]byte, error) {
	return func(b *build) ([]byte, error) { return os.ReadFile(filepath.Join(b.Repository, path)) }
}

// binary is one that was compiled for the architecture.
func binary(name string) func(*build) ([]byte, error) {
	return func(b *build) ([]byte, error) { return os.ReadFile(filepath.Join(b.stage, name)) }
}

// completion is what spillctl says its own is, so that there is one of it.
func completion(shell string) func(*build) ([]byte, error) {
	return func(b *build) ([]byte, error) {
		var out, messages bytes.Buffer
		if code := ctl.Execute(b.ctx, []string{"spillctl", "completion", shell}, ctl.Streams{In: bytes.NewReader(nil), Out: &out, Err: &messages}); code != 0 {
			return nil, fmt.Errorf("spillctl completion %s: exit code %d: %s", shell, code, messages.Bytes())
		}
		return out.Bytes(), nil
	}
}

func roff(page string, err error) ([]byte, error) { return []byte(page), err }

// tableHead and tableRow are how the reference has its keys: the key, its default, its meaning.
var (
	tableHead = regexp.MustCompile(`(?m)^\| key \|.*\n\|[-|]+\|\n`)
	tableRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| (.+) \\|$")
)

// manOfConfiguration is spillwayd.yaml(5): the reference in docs/ as a man page, its tables as lists, for which a terminal is wide enough.
func manOfConfiguration(b *build) ([]byte, error) {
	text, err := source("docs/configuration.md")(b)
	if err != nil {
		return nil, err
	}
	_, text, ok := bytes.Cut(text, []byte("\n")) // the title, which a man page has in another form
	if !ok {
		return nil, fmt.Errorf("docs/configuration.md has no text")
	}
	head := "spillwayd.yaml 5\n================\n\n# NAME\n\nspillwayd.yaml - configuration of a Spillway appliance\n\n# DESCRIPTION\n\n"
	text = tableHead.ReplaceAll(text, nil)
	text = tableRow.ReplaceAll(text, []byte("**$1**, default $2\n: $3\n"))
	page := strings.NewReplacer("default must be said", "must be said", ", default –", "").Replace(head + string(text))
	return md2man.Render([]byte(page)), nil
}

// copyright is NOTICE, and where a Debian has the texts that it names.
func copyright(b *build) ([]byte, error) {
	notice, err := source("NOTICE")(b)
	if err != nil {
		return nil, err
	}
	mit, err := source("LICENSES/MIT.txt")(b)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(notice, "\nOn Debian systems, the Apache License is in /usr/share/common-licenses/Apache-2.0 and\nthe GNU General Public License in /usr/share/common-licenses/GPL-2. The MIT License:\n\n%s", mit), nil
}

// zipped is gzip without a name and a time, so that the same text gives the same bytes.
func zipped(text func(*build) ([]byte, error)) func(*build) ([]byte, error) {
	return func(b *build) ([]byte, error) {
		plain, err := text(b)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(plain); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		return out.Bytes(), nil
	}
}

// stageItems writes the files of a package below the stage and returns them as nfpm takes them.
func (b *build) stageItems(name string, items []item) (files.Contents, error) {
	var list files.Contents
	for i, it := range items {
		text, err := it.text(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", it.to, err)
		}
		from := filepath.Join(b.stage, fmt.Sprintf("%s-%02d", name, i))
		if err := os.WriteFile(from, text, 0o644); err != nil {
			return nil, err
		}
		mode := it.mode
		if mode == 0 {
			mode = 0o644
		}
		kind := files.TypeFile
		if it.config {
			kind = files.TypeConfig
		}
		list = append(list, &files.Content{
			Source: from, Destination: it.to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: b.when},
		})
	}
	return list, nil
}
