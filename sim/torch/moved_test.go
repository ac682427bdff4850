package torch_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph/modules"
	torchsim "memopt/sim/torch"
)

// chain is five forward steps of a second, of which 1, 2 and 3 save their inputs of 100 bytes, and their backward:
// steps 5 to 8 are of 4 to 1. Step i makes storage i+1, and the backward of i storage 10-i.
func chain() *torchsim.Program {
	p := &torchsim.Program{Tree: &modules.Tree{}, Backward: 5}
	for i := range 10 {
		p.Storages = append(p.Storages, torchsim.Storage{Bytes: 100, Held: i == 0})
	}
	p.Storages[5].Bytes = 4 // the loss
	for i := range torchsim.StorageID(5) {
		s := torchsim.Step{Call: -1, Reads: []torchsim.StorageID{i}, Makes: []torchsim.StorageID{i + 1}, Seconds: 1}
		if i > 0 && i < 4 {
			s.Packed = []torchsim.Packed{{Storage: i, Elements: 25, Bytes: 100}}
		}
		p.Steps = append(p.Steps, s)
	}
	for of := int32(4); of > 0; of-- {
		s := torchsim.Step{Call: -1, Backward: true, Of: of, Reads: []torchsim.StorageID{torchsim.StorageID(9 - of)},
			Makes: []torchsim.StorageID{torchsim.StorageID(10 - of)}, Seconds: 1}
		if of < 4 {
			s.Saves, s.Reads = true, append(s.Reads, torchsim.StorageID(of))
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// moved is the program with the inputs of steps on the host; the last step's stays.
func moved(t *testing.T, p *torchsim.Program, link float64, stays bool, steps ...int32) (*torchsim.Moved,
	torchsim.Usage) {
	t.Helper()
	moves := &torchsim.Moves{Link: link}
	for i, at := range steps {
		moves.Groups = append(moves.Groups, torchsim.Group{Steps: []int32{at}, Commit: at, Hold: at,
			Stays: stays && i == len(steps)-1})
	}
	m, err := p.Move(moves, nil)
	require.NoError(t, err)
	u, err := m.Rerun(m.Regions)
	require.NoError(t, err)
	return m, u
}

// TestMove: peaks, bytes and waits that were found by hand. A group comes back behind the backward of another one.
func TestMove(t *testing.T) {
	p := chain()
	u, err := p.Rerun(nil)
	require.NoError(t, err)
	require.EqualValues(t, 500, u.Peak, "three inputs, the gradient and its result")

	m, u := moved(t, p, math.Inf(1), true, 1, 2, 3)
	require.EqualValues(t, 300, u.Peak)
	require.EqualValues(t, 200, m.Bytes)
	require.Zero(t, m.Seconds)

	m, u = moved(t, p, 50, true, 1, 2, 3)
	require.EqualValues(t, 400, u.Peak, "the first input is on its way while the fourth step runs")
	require.EqualValues(t, 4, m.Seconds, "both come back for two seconds, and no step runs beside them")
	m, _ = moved(t, p, 100, true, 1, 2, 3)
	require.EqualValues(t, 2, m.Seconds)

	m, u = moved(t, p, math.Inf(1), false, 3)
	require.EqualValues(t, 500, u.Peak, "no group before it: it comes back when it is needed")
	require.EqualValues(t, 100, m.Bytes)
	_, u = moved(t, p, math.Inf(1), true, 1, 3)
	require.EqualValues(t, 400, u.Peak, "the first input comes back behind the backward of step 3")
	_, u = moved(t, p, math.Inf(1), false, 1)
	require.EqualValues(t, 400, u.Peak)
	_, u = moved(t, p, 1, false, 1)
	require.EqualValues(t, 500, u.Peak, "the copy takes longer than the forward half")
}

// TestMoveViews: a strided tensor of less than half of its storage is gathered, and alone comes back; else all of it
// moves. Tensors of few elements stay, and so do those that autocast has cast.
func TestMoveViews(t *testing.T) {
	for _, x := range []struct {
		packed torchsim.Packed
		edit   func(*torchsim.Program, *torchsim.Moves)
		bytes  int64
	}{
		{torchsim.Packed{Storage: 1, Elements: 5, Bytes: 20, Strided: true}, nil, 20},
		{torchsim.Packed{Storage: 1, Elements: 13, Bytes: 52, Strided: true}, nil, 100},
		{torchsim.Packed{Storage: 1, Elements: 13, Bytes: 50, Strided: true}, nil, 100},
		{torchsim.Packed{Storage: 1, Elements: 13, Bytes: 52}, nil, 52},
		{torchsim.Packed{Storage: 1, Elements: 25, Bytes: 100},
			func(_ *torchsim.Program, m *torchsim.Moves) { m.Elements = 25 }, 100},
		{torchsim.Packed{Storage: 1, Elements: 25, Bytes: 100},
			func(_ *torchsim.Program, m *torchsim.Moves) { m.Elements = 26 }, 0},
		{torchsim.Packed{Storage: 1, Elements: 25, Bytes: 100},
			func(p *torchsim.Program, _ *torchsim.Moves) { p.Storages[1].Cached = true }, 0},
	} {
		groups := []torchsim.Group{{Steps: []int32{1}, Commit: 1}}
		p, moves := chain(), &torchsim.Moves{Link: math.Inf(1), Groups: groups}
		p.Steps[1].Packed[0] = x.packed
		if x.edit != nil {
			x.edit(p, moves)
		}
		m, err := p.Move(moves, nil)
		require.NoError(t, err)
		require.Equal(t, x.bytes, m.Bytes, x.packed)
	}
	p := chain()
	p.Steps[1].Packed[0] = torchsim.Packed{Storage: 1, Elements: 12, Bytes: 48, Strided: true}
	p.Steps[8].Reads = p.Steps[8].Reads[:1] // no backward step reads the input
	p.Steps[2].Work = 1000
	_, u := moved(t, p, math.Inf(1), false, 1)
	require.EqualValues(t, 1000+200, u.Peak, "the gathered view is gone before the next step")
	_, u = moved(t, p, 1, false, 1)
	require.EqualValues(t, 1000+300+48, u.Peak, "it stays until it is on the host")
}

// TestMoveHeld: a variable of the model holds a moved tensor until its step; where Megatron-LM frees it all the same,
// no other step may read it.
func TestMoveHeld(t *testing.T) {
	peak := func(g torchsim.Group) (int64, error) {
		p := chain()
		p.Steps[3].Work = 1000
		m, err := p.Move(&torchsim.Moves{Link: math.Inf(1), Groups: []torchsim.Group{g}}, nil)
		if err != nil {
			return 0, err
		}
		u, err := m.Rerun(m.Regions)
		return u.Peak, err
	}
	for hold, want := range map[int32]int64{1: 1300, 2: 1300, 3: 1400} {
		got, err := peak(torchsim.Group{Steps: []int32{1}, Commit: 1, Hold: hold})
		require.NoError(t, err)
		require.Equal(t, want, got, hold)
	}
	_, err := peak(torchsim.Group{Steps: []int32{1}, Commit: 1, Releases: []torchsim.StorageID{1, 7}})
	require.NoError(t, err)
	_, err = peak(torchsim.Group{Name: "core_attn", Steps: []int32{2}, Commit: 1, Releases: []torchsim.StorageID{2}})
	require.EqualError(t, err, "tensors of core_attn cannot move: step 2 reads them when they are gone")
	p := chain()
	p.Steps[7].Reads = append(p.Steps[7].Reads, 1)
	_, err = p.Move(&torchsim.Moves{Link: 1, Groups: []torchsim.Group{{Name: "attn_norm", Steps: []int32{1}, Commit: 1,
		Releases: []torchsim.StorageID{1}}}}, nil)
	require.EqualError(t, err, "tensors of attn_norm cannot move: step 7 reads them when they are gone")
	again := &torchsim.Moves{Link: 1, Groups: []torchsim.Group{{Name: "moe_act", Steps: []int32{2}, Commit: 2}}}
	_, err = chain().Move(again, []torchsim.Region{{Mechanism: torchsim.Discarding, Steps: []int32{1},
		Until: []int32{2}}})
	require.EqualError(t, err, "tensors of moe_act cannot move: step 1 makes them again")
}

// TestMoveRegion: the input of a region that runs again moves, and its second run reads the copy.
func TestMoveRegion(t *testing.T) {
	p := chain()
	list := []torchsim.Region{{Mechanism: torchsim.Discarding, Steps: []int32{1}, Until: []int32{2}}}
	u, err := p.Rerun(list)
	require.NoError(t, err)
	require.EqualValues(t, 400, u.Peak)
	m, err := p.Move(&torchsim.Moves{Link: math.Inf(1), Groups: []torchsim.Group{
		{Steps: []int32{1}, Commit: 1, Hold: 1}, {Steps: []int32{3}, Commit: 3, Hold: 3, Stays: true}}}, list)
	require.NoError(t, err)
	require.EqualValues(t, 100, m.Bytes)
	u, err = m.Rerun(m.Regions)
	require.NoError(t, err)
	require.EqualValues(t, 400, u.Peak, "the copy, the second result, a gradient and its result")
	require.EqualValues(t, 1, u.Seconds)
	require.Nil(t, list[0].Moved, "the caller's regions stay as they are")
}

// TestMoveBesideRegion: a tensor that is on its way, or held by a variable, while a region runs is none that the region
// keeps.
func TestMoveBesideRegion(t *testing.T) {
	p := chain()
	p.Steps[2].Packed = nil
	list := []torchsim.Region{{Steps: []int32{2, 3}}}
	peak := func(link float64, hold int32) int64 {
		m, err := p.Move(&torchsim.Moves{Link: link, Groups: []torchsim.Group{
			{Steps: []int32{1}, Commit: 1, Hold: hold}}}, list)
		require.NoError(t, err)
		u, err := m.Rerun(m.Regions)
		require.NoError(t, err)
		return u.Peak
	}
	require.EqualValues(t, 500, peak(math.Inf(1), 1), "the region's input, its second results, two gradients")
	require.EqualValues(t, 500, peak(60, 1))
	require.EqualValues(t, 500, peak(math.Inf(1), 2))
	require.EqualValues(t, 600, peak(20, 1), "the copy ends in the backward half")
}

// TestMoveEarly: the copies that a second run reads are on their way before it, which is before the backward of the
// module behind the region.
func TestMoveEarly(t *testing.T) {
	p := chain()
	list := []torchsim.Region{{Mechanism: torchsim.Discarding, Steps: []int32{1}, Until: []int32{2}}}
	moves := &torchsim.Moves{Link: 50, Groups: []torchsim.Group{{Steps: []int32{1}, Commit: 1, Hold: 1}}}
	m, err := p.Move(moves, list)
	require.NoError(t, err)
	back := slices.IndexFunc(m.Steps, func(s torchsim.Step) bool { return s.Op == "reload" })
	require.Equal(t, []int32{m.Regions[0].Until[0]}, []int32{m.Steps[back+1].Of})

	// Two tensors of the input that are one, and whose elements count once.
	p.Steps[1].Packed = append(p.Steps[1].Packed, p.Steps[1].Packed[0])
	for elements, want := range map[int64]int64{25: 100, 26: 0} {
		moves.Elements = elements
		m, err := p.Move(moves, list)
		require.NoError(t, err)
		require.Equal(t, want, m.Bytes)
	}

	// The input of a region comes from another one.
	list = append(list, torchsim.Region{Mechanism: torchsim.Discarding, Steps: []int32{2}, Until: []int32{3}})
	moves.Groups[0].Steps, moves.Elements = []int32{2}, 0
	_, err = p.Move(moves, list)
	require.EqualError(t, err, "tensors of  cannot move: step 1 makes them again")
}

// TestMoveUnread: copies that no backward step needs do not come back.
func TestMoveUnread(t *testing.T) {
	p := chain()
	p.Steps[8].Of = 2
	for _, link := range []float64{1e-3, 100, math.Inf(1)} {
		m, _ := moved(t, p, link, false, 1)
		require.EqualValues(t, 100, m.Bytes)
		require.False(t, slices.ContainsFunc(m.Steps, func(s torchsim.Step) bool { return s.Op == "reload" }))
		require.Zero(t, m.Seconds)
	}
}

// TestMoveLinks: over a faster link peaks and waits are no higher.
func TestMoveLinks(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		p := randomStep(t)
		moves := &torchsim.Moves{}
		var list []torchsim.Region
		for call := range int32(3) {
			steps := p.Within(call)
			switch rapid.IntRange(0, 2).Draw(t, "part") * min(len(steps), 1) {
			case 1:
				list = append(list, torchsim.Region{Steps: steps})
			case 2:
				g := torchsim.Group{Steps: steps, Commit: steps[len(steps)-1]}
				g.Hold = int32(rapid.IntRange(int(g.Commit), p.Backward-1).Draw(t, "hold"))
				moves.Groups = append(moves.Groups, g)
			}
		}
		for i := range p.Backward {
			for _, id := range slices.Concat(p.Steps[i].Reads, p.Steps[i].Makes) {
				p.Steps[i].Packed = append(p.Steps[i].Packed, torchsim.Packed{Storage: id, Elements: 1,
					Bytes: p.Storages[id].Bytes, Strided: rapid.Bool().Draw(t, "strided")})
			}
		}
		peak, waited := int64(math.MaxInt64), math.Inf(1)
		for _, link := range []float64{1, 10, 30, 100, 1000, math.Inf(1)} {
			moves.Link = link
			m, err := p.Move(moves, list)
			if err != nil { // whatever the link is
				var no *torchsim.MoveError
				require.ErrorAs(t, err, &no)
				return
			}
			moved++
			u, err := m.Rerun(m.Regions)
			require.NoError(t, err)
			require.LessOrEqual(t, u.Peak, peak, link)
			require.LessOrEqual(t, m.Seconds, waited+1e-9, link)
			peak, waited = u.Peak, m.Seconds
		}
		require.Zero(t, waited)
	})
	require.Positive(t, moved)
}

// TestMoveNothing: without tensors that are large enough a program keeps its memory.
func TestMoveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomStep(t)
		moves := &torchsim.Moves{Elements: 100, Link: 1}
		for i := range p.Backward {
			for _, id := range p.Steps[i].Reads {
				p.Steps[i].Packed = append(p.Steps[i].Packed, torchsim.Packed{Storage: id, Elements: 1, Bytes: 1})
			}
			moves.Groups = append(moves.Groups, torchsim.Group{Steps: []int32{int32(i)}, Commit: int32(i)})
		}
		var list []torchsim.Region
		if steps := p.Within(0); len(steps) > 0 {
			list = []torchsim.Region{{Steps: steps}}
		}
		want, err := p.Rerun(list)
		require.NoError(t, err)
		m, err := p.Move(moves, list)
		require.NoError(t, err)
		got, err := m.Rerun(m.Regions)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Zero(t, m.Bytes)
	})
}
