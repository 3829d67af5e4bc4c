package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		name, events string
		ok           bool
		closing      string
		contains     []string
	}{
		{
			name: "subtests count in place of their parent",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/one"}
{"Action":"pass","Package":"p","Test":"A/one"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Elapsed":1.5}
`,
			ok: true, closing: "1 passed, 0 failed, 0 skipped", contains: []string{"1.5 s"},
		},
		{
			name: "a failure shows its output",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/one"}
{"Action":"output","Package":"p","Test":"A/one","Output":"got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"A/one"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"fail","Package":"p"}
`,
			closing: "0 passed, 1 failed, 0 skipped", contains: []string{"got 1, want 2"},
		},
		{
			name: "a skip says why",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:3: no veth\n"}
{"Action":"output","Package":"p","Test":"A","Output":"--- SKIP: A (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"B"}
{"Action":"pass","Package":"p","Test":"B"}
{"Action":"pass","Package":"p"}
`,
			ok: true, closing: "1 passed, 0 failed, 1 skipped", contains: []string{"p A: a_test.go:3: no veth"},
		},
		{
			name: "a build that fails is a failure",
			events: `{"ImportPath":"p","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`,
			closing: "0 passed, 1 failed, 0 skipped", contains: []string{"undefined: x"},
		},
		{
			name: "a test that never ends is a failure",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}
`,
			closing: "0 passed, 1 failed, 0 skipped", contains: []string{"panic: test timed out"},
		},
		{
			name: "a package that never ends is a failure",
			events: `{"Action":"run","Package":"p","Test":"A"}
`,
			closing: "0 passed, 1 failed, 0 skipped", contains: []string{"p did not end"},
		},
		{
			name: "no test at all is a failure",
			events: `{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}
{"Action":"skip","Package":"p"}
`,
			closing: "0 passed, 0 failed, 0 skipped", contains: []string{"no test ran"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			if ok := s.close(); ok != c.ok {
				t.Errorf("ok = %v, want %v", ok, c.ok)
			}
			if !strings.HasSuffix(out.String(), "\n"+c.closing+"\n") {
				t.Errorf("does not close on %q:\n%s", c.closing, out.String())
			}
			for _, want := range c.contains {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}
