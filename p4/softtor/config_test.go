package softtor

import (
	"fmt"
	"strings"
	"testing"
)

const good = `{"listen": "127.0.0.1:0", "device_id": 1, "slots": 64, "elements": 256, "ports": [{"port": 1, "interface": "eth1"}, {"port": 511, "interface": "eth2"}]}`

func TestReadConfig(t *testing.T) {
	c, err := ReadConfig(strings.NewReader(good))
	if err != nil || c.Slots != 64 || c.Elements != 256 || len(c.Ports) != 2 || c.Ports[1] != (Port{511, "eth2"}) {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = ReadConfig(strings.NewReader(`{"listen": "unix:/run/tor.sock", "device_id": 1, "ports": [{"port": 0, "interface": "eth1"}]}`))
	if err != nil || c.Slots != 32768 || c.Elements != 32 {
		t.Errorf("what is left out: %+v, %v", c, err)
	}
}

func TestWrongConfigs(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{`"slots"`, `"slot"`, `unknown field "slot"`},
		{`"slots": 64`, `"slots": "64"`, "slots"},
		{`"slots": 64`, `"slots": -1`, "slots"},
		{`"slots": 64`, `"slots": 65536`, "slots: 65536, the most is 65535"},
		{`256`, `100`, "elements: 100 is not a multiple of 32"},
		{`256`, `864`, "elements: 864"},
		{`"device_id": 1`, `"device_id": 0`, "device_id: 0"},
		{`127.0.0.1:0`, `10.0.0.1:9559`, "listen: 10.0.0.1:9559 is not of the loopback interface"},
		{`"listen": "127.0.0.1:0"`, `"anybody": true, "listen": "10.0.0.1"`, "listen: \"10.0.0.1\" is neither"},
		{`127.0.0.1:0`, `localhost`, "listen: \"localhost\" is neither"},
		{`127.0.0.1:0`, ``, "listen: \"\" is neither"},
		{`127.0.0.1:0`, `unix:tor.sock`, "not an absolute path"},
		{`127.0.0.1:0`, `unix:/` + strings.Repeat("x", 107), "of at most 107 bytes"},
		{`511`, `512`, "ports[1].port: 512"},
		{`511`, `1`, "ports[1].port: 1 is that of ports[0] too"},
		{`eth2`, `eth1`, "ports[1].interface: eth1 is that of ports[0] too"},
		{`eth2`, ``, "ports[1].interface: \"\""},
		{`eth2`, `a-name-that-is-too-long`, "ports[1].interface"},
		{`{"port": 1, "interface": "eth1"}, {"port": 511, "interface": "eth2"}`, ``, "ports: there are none"},
		{`"eth2"}]}`, `"eth2"}]} {}`, "something after its end"},
		{`"eth2"}]}`, `"eth2"}]`, "unexpected EOF"},
	} {
		_, err := ReadConfig(strings.NewReader(strings.Replace(good, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s for %s: %v, want an error with %q", test.new, test.old, err, test.want)
		}
	}
	err := (Config{DeviceID: 0, Elements: 1}).Validate()
	for _, want := range []string{"listen", "device_id", "elements", "ports"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// FuzzReadConfig: nothing panics, and what is accepted is valid.
func FuzzReadConfig(f *testing.F) {
	f.Add(good)
	f.Add(`{"listen":"unix:/x","ports":[{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ReadConfig(strings.NewReader(text)); err == nil && c.Validate() != nil {
			t.Errorf("accepted, but %v", c.Validate())
		}
	})
}
