package fabric

import (
	"fmt"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/pipeline"
)

// A change is one update of the ToR, and what it is for.
type change struct {
	*p4v1.Update
	kind p4v1.Update_Type
	item pipeline.Item
	// job is whose the item is, nil for the hosts' and for what nobody wants.
	job *job
	// account is whose counter is set to 0, nil otherwise.
	account *account
	// repair says in a word what somebody else did to the ToR that this undoes; empty for a change that is only wanted now.
	repair string
}

func (c change) String() string {
	return fmt.Sprintf("%s %s", c.kind, c.item.Key)
}

// Steps of a plan, each a batch of its own, because P4Runtime lets a server reorder what is in one. Doors are closed first and opened last; what is
// deleted makes room for what is inserted; multicast groups are there before what names them and until after.
const (
	closeDoors = iota
	makeRoom
	prepare
	fill
	openDoors
	tidy
	steps
)

// A plan is what brings the ToR from what it has to what is wanted.
type plan struct {
	steps [steps][]change
	// jobs are those that something is to become of: the ToR has all of them when all is done, but of those in trouble.
	jobs    []*job
	trouble troubles
}

// troubles are why the ToR does not have all of a job, or, at nil, of the hosts' entries, or has what nobody wants: the first reason of each.
type troubles map[*job]string

func (t troubles) add(j *job, why string) {
	if t[j] == "" {
		t[j] = why
	}
}

func (p *plan) add(step int, c change) {
	c.Update = c.item.Update(c.kind)
	p.steps[step] = append(p.steps[step], c)
}

// a claim is an item and who wants it.
type claim struct {
	pipeline.Item
	job *job // nil: the hosts
}

// claims are all items that are wanted; f.mu is held. A job that cannot be, or wants an entry that an earlier one has, is in trouble and has none.
func (f *Fabric) claims() (map[pipeline.Key]claim, troubles) {
	want := make(map[pipeline.Key]claim, len(f.have))
	for _, item := range f.hosts {
		want[item.Key] = claim{item, nil}
	}
	trouble := troubles{}
	for _, j := range f.inOrder() {
		if why := unclaimable(want, j); why != "" {
			trouble.add(j, why)
			continue
		}
		for _, item := range j.items {
			want[item.Key] = claim{item, j}
		}
	}
	return want, trouble
}

// unclaimable is why a job cannot have all of its items, empty if it can.
func unclaimable(want map[pipeline.Key]claim, j *job) string {
	if j.invalid != nil {
		return j.invalid.Error()
	}
	for _, item := range j.items {
		other, taken := want[item.Key]
		switch {
		case taken && other.job != nil:
			return fmt.Sprintf("%s is job %d's", item.Key, other.job.ID)
		case taken:
			return fmt.Sprintf("%s is for the hosts", item.Key)
		}
	}
	return ""
}

// plan compares what the ToR has with what is wanted; f.mu is held. When that was just read, believed is what it was thought to have (nil: nothing
// was known), so that what others did can be told.
func (f *Fabric) plan(read bool, believed map[pipeline.Key]pipeline.Item) plan {
	var p plan
	want, trouble := f.claims()
	p.trouble = trouble
	for key, has := range f.have {
		if _, ok := want[key]; ok {
			continue
		}
		c := change{kind: p4v1.Update_DELETE, item: has}
		if _, ours := believed[key]; read && !ours {
			c.repair = "foreign"
		}
		p.add(deletion(has.Stage()), c)
	}
	for key, w := range want {
		has, there := f.have[key]
		if there && has.Value == w.Value || w.job != nil && w.job.held {
			continue
		}
		c := change{kind: p4v1.Update_INSERT, item: w.Item, job: w.job}
		was, ours := believed[key]
		switch {
		case there:
			c.kind = p4v1.Update_MODIFY
			if read && (!ours || was.Value != has.Value) {
				c.repair = "changed"
			}
		case read && ours:
			c.repair = "missing"
		}
		p.add(insertion(w.Stage()), c)
	}
	for _, j := range f.inOrder() {
		if j.held {
			continue
		}
		p.jobs = append(p.jobs, j)
		if p.trouble[j] == "" {
			p.steps[prepare] = append(p.steps[prepare], f.begin(j)...)
		}
	}
	p.sort()
	return p
}

func deletion(s pipeline.Stage) int {
	return [pipeline.Stages]int{pipeline.StageGroups: tidy, pipeline.StageTables: makeRoom, pipeline.StageMembers: closeDoors}[s]
}

func insertion(s pipeline.Stage) int {
	return [pipeline.Stages]int{pipeline.StageGroups: prepare, pipeline.StageTables: fill, pipeline.StageMembers: openDoors}[s]
}

// sort puts deletions into the reverse order of insertions. Modifications come before insertions: a region that becomes a shared one must be it before
// another may overlap it.
func (p *plan) sort() {
	for n := range p.steps {
		slices.SortFunc(p.steps[n], func(a, b change) int {
			switch {
			case a.kind == b.kind && a.kind == p4v1.Update_DELETE:
				return b.item.Before(a.item)
			case a.kind == b.kind:
				return a.item.Before(b.item)
			case a.kind == p4v1.Update_MODIFY:
				return -1
			}
			return 1
		})
	}
}
