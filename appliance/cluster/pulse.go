package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"spillway/appliance/cluster/peer"
)

// Led is an appliance that a leader has a heartbeat with.
type Led struct {
	Seen
	// Client calls it; nil: it is the leader itself.
	Client *peer.Client
}

// Follower is told which appliances there are. Its methods are called one at a time, and are to return soon.
type Follower interface {
	// Begin is called first, with those that answer.
	Begin(up []Led) error
	// Up says that one is there, or is back; Down that one is gone, and why.
	Up(led Led)
	Down(name, reason string)
	// End is called last, if Begin was: afterwards no appliance can be called any more.
	End()
}

// ErrUnreachable: workers do not reach the leader, and do reach another appliance.
var ErrUnreachable = errors.New("workers do not reach this appliance, and do reach others")

// pulses are those of all members.
type pulses struct {
	term *Term

	mu     sync.Mutex // guards what follows
	states map[string]pulse
	poke   chan struct{}
}

// pulse is how a member is heard.
type pulse struct {
	led     Led
	answers bool // it was heard of within silence
	healthy bool // and workers reach it
	reason  string
	told    bool // whether anything is known of it yet
}

// Follow has a heartbeat with every member while the term lasts, and tells of those that come and go.
func (t *Term) Follow(ctx context.Context, follower Follower) error {
	p := &pulses{term: t, states: map[string]pulse{}, poke: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer cancel()
	heard := map[string]hearer{}
	defer func() {
		for _, h := range heard {
			h.stop()
		}
	}()
	begun, up := false, map[string]int64{}
	defer func() {
		if begun {
			follower.End()
		}
	}()
	patience := time.NewTimer(silence)
	defer patience.Stop()
	for late := false; ; {
		members, _, changed := t.cluster.view.look()
		p.attend(ctx, &hearing, heard, members)
		states := p.look()
		if _, registered := members[t.cluster.config.Self.Name]; !registered {
			t.StepDown(ErrDeposed)
			return ErrDeposed
		}
		if own, ok := states[t.cluster.config.Self.Name]; ok && own.told && !own.serves(states) {
			t.StepDown(ErrUnreachable)
			return ErrUnreachable
		}
		if !begun && (late || settled(states, members)) {
			begun = true
			var first []Led
			for name, s := range states {
				if s.serves(states) {
					first, up[name] = append(first, s.led), s.led.Incarnation
				}
			}
			if err := follower.Begin(first); err != nil {
				return err
			}
			continue
		}
		if begun {
			tell(follower, states, up)
		}
		select {
		case <-changed:
		case <-p.poke:
		case <-patience.C:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tell tells of what changed.
func tell(follower Follower, states map[string]pulse, up map[string]int64) {
	for name, incarnation := range maps.Clone(up) {
		s, there := states[name]
		switch {
		case !there:
			follower.Down(name, "it has left the cluster")
		case !s.serves(states):
			follower.Down(name, s.reason)
		case s.led.Incarnation != incarnation:
			follower.Down(name, "it was started again")
		default:
			continue
		}
		delete(up, name)
	}
	for name, s := range states {
		if _, known := up[name]; !known && s.serves(states) {
			follower.Up(s.led)
			up[name] = s.led.Incarnation
		}
	}
}

// serves says whether jobs can be homed at the member. One that workers do not reach still is as good as all the others when they reach none: then it is not the
// member that is broken.
func (s *pulse) serves(all map[string]pulse) bool {
	if !s.answers || s.healthy {
		return s.answers
	}
	for _, other := range all {
		if other.answers && other.healthy {
			return false
		}
	}
	return true
}

// settled says whether something is known of every member.
func settled(states map[string]pulse, members map[string]Seen) bool {
	for name := range members {
		if !states[name].told {
			return false
		}
	}
	return true
}

func (p *pulses) look() map[string]pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.states)
}

// set notes how a member is heard; nil: it is no member any more.
func (p *pulses) set(name string, s *pulse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == nil {
		delete(p.states, name)
	} else {
		p.states[name] = *s
	}
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// hearer is the goroutine that hears one incarnation of a member.
type hearer struct {
	incarnation int64
	stop        func()
}

// attend begins to hear those that came, and ends with those that went.
func (p *pulses) attend(ctx context.Context, hearing *sync.WaitGroup, heard map[string]hearer, members map[string]Seen) {
	for name, h := range heard {
		if m, there := members[name]; !there || m.Incarnation != h.incarnation {
			h.stop()
			delete(heard, name)
			if !there {
				p.set(name, nil)
			}
		}
	}
	for name, m := range members {
		if _, there := heard[name]; there {
			continue
		}
		of, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		heard[name] = hearer{m.Incarnation, func() {
			stop()
			<-ended
		}}
		hearing.Go(func() {
			defer close(ended)
			if name == p.term.cluster.config.Self.Name {
				p.own(of, m)
			} else {
				p.hear(of, m)
			}
		})
	}
}

// own follows the leader's own health.
func (p *pulses) own(ctx context.Context, m Seen) {
	for ctx.Err() == nil {
		healthy, reason, changed := p.term.cluster.config.Health()
		p.set(m.Name, &pulse{led: Led{Seen: m}, answers: true, healthy: healthy, reason: reason, told: true})
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// hear has a heartbeat with a member, and makes it again when it broke.
func (p *pulses) hear(ctx context.Context, m Seen) {
	client, err := peer.Dial(m.Name, m.Peers, p.term.cluster.config.Identity)
	if err != nil {
		p.set(m.Name, &pulse{led: Led{Seen: m}, reason: err.Error(), told: true})
		<-ctx.Done()
		return
	}
	defer client.Close()
	s := &pulse{led: Led{Seen: m, Client: client}}
	patience := silence
	for ctx.Err() == nil {
		beaten, err := p.beat(ctx, client, s, patience)
		if ctx.Err() != nil {
			return
		}
		if beaten && !errors.Is(err, peer.ErrSilent) {
			patience = lastWord // the connection broke: once more, before it is missed
			continue
		}
		patience = silence
		if s.answers || !s.told {
			p.term.cluster.config.Log.Warn("an appliance is missed", "appliance", m.Name, "why", err)
		}
		s.answers, s.healthy, s.told, s.reason = false, false, true, fmt.Sprintf("it does not answer: %v", err)
		p.set(m.Name, s)
		if !wait(ctx, beatEvery) {
			return
		}
	}
}

// beat is one heartbeat, until it breaks. It returns whether there was an answer at all.
func (p *pulses) beat(ctx context.Context, client *peer.Client, s *pulse, patience time.Duration) (beaten bool, err error) {
	t := p.term
	err = client.Beat(ctx, t.Number, t.cluster.config.Self.Name, beatEvery, patience, func(healthy bool, reason string) {
		if !beaten || s.healthy != healthy || s.reason != reason {
			s.answers, s.told, s.healthy, s.reason = true, true, healthy, reason
			p.set(s.led.Name, s)
		}
		beaten = true
	})
	return beaten, err
}
