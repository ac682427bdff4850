package torch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Group is a part of the forward half whose saved tensors move to the host once a later step is done, and come back in
// the backward half (OffloadTensorGroup in megatron/core/pipeline_parallel/fine_grained_activation_offload.py).
type Group struct {
	Name   string
	Steps  []int32 // forward steps, in order
	Commit int32   // the forward step behind which the copies begin
	// Hold is the last forward step in which variables of the model hold tensors that are not in Releases.
	Hold int32
	// Releases are storages whose memory is freed although variables hold them.
	Releases []StorageID
	Stays    bool // it does not move, but takes part in the order in which groups come back
}

// Moves are groups that move, and how.
type Moves struct {
	Groups   []Group
	Elements int64   // tensors of fewer ones stay
	Link     float64 // bytes per second each way; +Inf: copies take no time
}

// Moved is a program whose saved tensors move.
type Moved struct {
	*Program
	Regions []Region // the same as for the program that does not move them
	Bytes   int64    // that move
	Seconds float64  // that the step waits for copies
}

// MoveError means that tensors of a group cannot move.
type MoveError struct {
	Group  string
	Step   int // a step that reads them, or makes them
	Reason string
}

func (e *MoveError) Error() string {
	return fmt.Sprintf("tensors of %s cannot move: step %d %s", e.Group, e.Step, e.Reason)
}

// mover makes a program with moves.
type mover struct {
	p       *Program
	moves   *Moves
	regions []Region
	of      []int32 // by forward step: its region, or -1
	maker   []int32 // by storage: the forward step that makes it, or -1
	groups  []moving
	out     *Program
	at      []int32 // by step: its place in out
	host    int64
	stalls  float64
}

// moving is a group with its copies.
type moving struct {
	*Group
	originals  []StorageID
	gathered   int64       // bytes of the largest view that is gathered for its copy, one after the other
	temporary  []StorageID // its storage
	copies     []StorageID // on their way back
	bytes      int64
	first      int32 // the first backward step that needs the copies
	last       int32 // the last backward step of the group
	back       int32 // the backward step behind which, or before which, it comes back
	before     bool
	offload    int32   // the place of the step that begins to copy
	ends, home float64 // the times when the copies are on the host, and back
}

// Move returns the program with moves beside regions that run again. The error is a *MoveError.
func (p *Program) Move(moves *Moves, list []Region) (*Moved, error) {
	m := &mover{p: p, moves: moves, regions: slices.Clone(list), of: fill(nil, p.Backward, -1),
		maker: fill(nil, len(p.Storages), -1), out: new(*p), at: make([]int32, len(p.Steps))}
	m.out.Storages, m.out.Steps = slices.Clone(p.Storages), nil
	for i := range p.Steps[:p.Backward] {
		for _, id := range p.Steps[i].Makes {
			m.maker[id] = int32(i)
		}
	}
	for r := range list {
		for _, at := range list[r].Steps {
			m.of[at] = int32(r)
		}
	}
	into := make([]map[StorageID][]StorageID, p.Backward) // by forward step: copies in place of originals
	for i := range moves.Groups {
		m.groups = append(m.groups, moving{Group: &moves.Groups[i], first: int32(len(p.Steps)), last: -1})
		if err := m.save(&m.groups[i], into); err != nil {
			return nil, err
		}
	}
	if err := m.released(into); err != nil {
		return nil, err
	}
	m.order()
	m.rewrite(into)
	m.time()
	return &Moved{m.out, m.renumbered(), m.host, m.stalls}, nil
}

// save finds the tensors of a group that move.
func (m *mover) save(g *moving, into []map[StorageID][]StorageID) error {
	seen := map[int32]bool{}
	for _, f := range g.Steps {
		if r := m.of[f]; r < 0 {
			for _, x := range m.p.Steps[f].Packed {
				if err := m.add(g, f, x, into); err != nil {
					return err
				}
			}
		} else if !seen[r] {
			seen[r] = true
			if err := m.inputs(g, r, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// inputs moves the tensors that a region in a group keeps: those that come in. Those of one storage count as one
// tensor.
func (m *mover) inputs(g *moving, r int32, into []map[StorageID][]StorageID) error {
	x := &m.regions[r]
	x.Moved = map[StorageID]StorageID{}
	var list []Packed
	for _, f := range x.Steps {
		for _, saved := range m.p.Steps[f].Packed {
			if made := m.maker[saved.Storage]; made >= 0 && m.of[made] == r {
				continue
			}
			at := slices.IndexFunc(list, func(y Packed) bool { return y.Storage == saved.Storage })
			if at < 0 {
				list = append(list, saved)
				continue
			}
			y := &list[at]
			y.Elements, y.Bytes = y.Elements+saved.Elements, y.Bytes+saved.Bytes
			if whole := m.p.Storages[y.Storage].Bytes; y.Bytes >= whole {
				y.Elements = int64(float64(y.Elements) * float64(whole) / float64(y.Bytes))
				y.Bytes, y.Strided = whole, false
			}
		}
	}
	for _, saved := range list {
		if err := m.add(g, x.Steps[0], saved, into); err != nil {
			return err
		}
		if copies := into[x.Steps[0]][saved.Storage]; copies != nil {
			x.Moved[saved.Storage] = copies[len(copies)-1]
		}
	}
	for _, f := range x.Steps {
		for id, to := range x.Moved {
			into[f] = with(into[f], id, to)
		}
	}
	return nil
}

// with adds a copy, unless it is there.
func with(into map[StorageID][]StorageID, id, to StorageID) map[StorageID][]StorageID {
	if into == nil {
		into = map[StorageID][]StorageID{}
	}
	if !slices.Contains(into[id], to) {
		into[id] = append(into[id], to)
	}
	return into
}

// baseCoverage is the share of its storage from which on a strided tensor moves with all of the storage, and not
// gathered (ChunkOffloadHandler.BASE_OFFLOAD_MIN_COVERAGE).
const baseCoverage = 0.5

// add moves a tensor that a step saves; parameters that autocast has cast stay, as parameters do.
func (m *mover) add(g *moving, f int32, x Packed, into []map[StorageID][]StorageID) error {
	whole := m.p.Storages[x.Storage]
	if g.Stays || x.Elements < m.moves.Elements || whole.Cached {
		return nil
	}
	if made := m.maker[x.Storage]; made >= 0 && m.of[made] >= 0 {
		return &MoveError{g.Name, int(made), "makes them again"}
	}
	bytes := x.Bytes
	if x.Strided {
		if float64(x.Bytes) >= baseCoverage*float64(whole.Bytes) {
			bytes = whole.Bytes
		} else {
			g.gathered = max(g.gathered, bytes)
		}
	}
	to := m.storage(bytes)
	g.originals, g.copies, g.bytes = append(g.originals, x.Storage), append(g.copies, to), g.bytes+bytes
	m.host += bytes
	into[f] = with(into[f], x.Storage, to)
	return nil
}

func (m *mover) storage(bytes int64) StorageID {
	m.out.Storages = append(m.out.Storages, Storage{Bytes: bytes})
	return StorageID(len(m.out.Storages) - 1)
}

// released checks that no step reads memory that a group frees.
func (m *mover) released(into []map[StorageID][]StorageID) error {
	freed := map[StorageID]*moving{}
	for i := range m.groups {
		g := &m.groups[i]
		for _, id := range g.Releases {
			if slices.Contains(g.originals, id) {
				freed[id] = g
			}
		}
	}
	for at := range m.p.Steps {
		s := &m.p.Steps[at]
		for _, id := range s.Reads {
			g := freed[id]
			if g != nil && (!s.Backward && int32(at) > g.Commit || s.Backward && into[s.Of][id] == nil) {
				return &MoveError{g.Name, at, "reads them when they are gone"}
			}
		}
	}
	return nil
}

// order finds when groups come back: behind the backward of each group, the last one that is away. A group whose turn
// comes too late comes back when it is needed.
func (m *mover) order() {
	group := fill(nil, m.p.Backward, -1)
	early := fill(nil, m.p.Backward, -1) // by step that a region's second run comes before: its group
	for i := range m.groups {
		for _, f := range m.groups[i].Steps {
			group[f] = int32(i)
			if r := m.of[f]; r >= 0 {
				for _, at := range m.regions[r].Until {
					early[at] = int32(i)
				}
			}
		}
	}
	for b := m.p.Backward; b < len(m.p.Steps); b++ {
		f := m.p.Steps[b].Of
		if i := group[f]; i >= 0 {
			m.groups[i].first, m.groups[i].last = min(m.groups[i].first, int32(b)), int32(b)
		}
		if i := early[f]; i >= 0 {
			m.groups[i].first = min(m.groups[i].first, int32(b))
		}
	}
	var turns, away []*moving
	for i := range m.groups {
		g := &m.groups[i]
		if g.last >= 0 {
			turns = append(turns, g)
		}
		if len(g.copies) > 0 {
			away = append(away, g)
		}
	}
	slices.SortStableFunc(turns, func(a, b *moving) int { return cmp.Compare(a.last, b.last) })
	slices.SortStableFunc(away, func(a, b *moving) int { return cmp.Compare(a.Commit, b.Commit) })
	for n, g := range slices.Backward(away) {
		g.back, g.before = g.first, true
		if turn := len(away) - 1 - n; turn < len(turns) && turns[turn].last < g.first {
			g.back, g.before = turns[turn].last, false
		}
	}
}

// rewrite writes the steps.
func (m *mover) rewrite(into []map[StorageID][]StorageID) {
	commits, before, behind := map[int32][]*moving{}, map[int32][]*moving{}, map[int32][]*moving{}
	for k := range m.groups {
		switch g := &m.groups[k]; {
		case len(g.copies) == 0:
			continue
		case g.before:
			before[g.back] = append(before[g.back], g)
		default:
			behind[g.back] = append(behind[g.back], g)
		}
		commits[m.groups[k].Commit] = append(commits[m.groups[k].Commit], &m.groups[k])
	}
	for i := range m.p.Steps {
		s := m.p.Steps[i]
		if i == m.p.Backward {
			m.out.Backward = len(m.out.Steps)
		}
		m.reload(before[int32(i)])
		if s.Backward {
			s.Reads = replaced(s.Reads, into[s.Of])
			s.Of = m.at[s.Of]
		}
		m.at[i] = int32(len(m.out.Steps))
		m.out.Steps = append(m.out.Steps, s)
		m.reload(behind[int32(i)])
		for _, g := range commits[int32(i)] {
			g.offload = int32(len(m.out.Steps))
			if g.gathered > 0 {
				g.temporary = []StorageID{m.storage(g.gathered)}
			}
			m.out.Steps = append(m.out.Steps, Step{Op: "offload", Node: s.Node, Call: -1,
				Reads: slices.Clone(g.originals), Makes: g.temporary})
		}
	}
	for k := range m.groups {
		if g := &m.groups[k]; g.Hold > g.Commit {
			s := &m.out.Steps[m.at[g.Hold]]
			s.Holds = append(s.Holds, g.originals...)
		}
	}
}

// reload writes the steps that begin to copy groups back.
func (m *mover) reload(list []*moving) {
	for _, g := range list {
		m.out.Steps = append(m.out.Steps, Step{Op: "reload", Node: m.out.Steps[g.offload].Node, Call: -1,
			Backward: true, Of: g.offload, Makes: g.copies})
	}
}

// replaced are storages with copies in place of originals.
func replaced(list []StorageID, into map[StorageID][]StorageID) (out []StorageID) {
	if into == nil {
		return list
	}
	for _, id := range list {
		if copies := into[id]; copies != nil {
			out = append(out, copies...)
		} else {
			out = append(out, id)
		}
	}
	return out
}

// time finds when the copies end, one after the other each way, beside a step without recomputation. Originals, and the
// views that are gathered, stay until they are on the host.
func (m *mover) time() {
	if math.IsInf(m.moves.Link, 1) {
		return
	}
	now, out, in := 0.0, 0.0, 0.0
	ends := make([]float64, len(m.out.Steps))
	first, leaves, returns := map[int32][]*moving{}, map[int32]*moving{}, map[StorageID]*moving{}
	for i := range m.groups {
		if g := &m.groups[i]; len(g.copies) > 0 {
			at := m.at[min(g.first, int32(len(m.at))-1)]
			first[at] = append(first[at], g)
			leaves[g.offload], returns[g.copies[0]] = g, g
		}
	}
	for i := range m.out.Steps {
		s := &m.out.Steps[i]
		for _, g := range first[int32(i)] {
			m.stalls += max(g.home-now, 0)
			now = max(now, g.home)
		}
		if g := leaves[int32(i)]; g != nil {
			out = max(out, now) + float64(g.bytes)/m.moves.Link
			g.ends = out
		} else if len(s.Makes) > 0 && returns[s.Makes[0]] != nil {
			g := returns[s.Makes[0]]
			in = max(in, now, g.ends) + float64(g.bytes)/m.moves.Link
			g.home = in
		}
		now += s.Seconds
		ends[i] = now
	}
	for i := range m.groups {
		if g := &m.groups[i]; len(g.copies) > 0 {
			at := min(sort.SearchFloat64s(ends, g.ends), len(ends)-1)
			s := &m.out.Steps[max(at, int(g.offload))]
			s.Holds = slices.Concat(s.Holds, g.originals, g.temporary)
		}
	}
}

// renumbered are the regions with the places of their steps.
func (m *mover) renumbered() []Region {
	places := func(list []int32) []int32 {
		out := make([]int32, len(list))
		for i, at := range list {
			out[i] = m.at[at]
		}
		return out
	}
	for r := range m.regions {
		x := &m.regions[r]
		x.Steps, x.Until = places(x.Steps), places(x.Until)
	}
	return m.regions
}
