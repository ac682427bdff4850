package torch_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph/modules"
	_ "memopt/internal/test/rapidflags"
	torchsim "memopt/sim/torch"
)

// TestReplayed: regions that torch.utils.checkpoint runs again have the memory that the other simulator gives them,
// on random programs and on a traced one.
func TestReplayed(t *testing.T) {
	compare := func(t require.TestingT, p *torchsim.Program, calls []int32) {
		var list []torchsim.Region
		for _, c := range calls {
			if steps := p.Within(c); len(steps) > 0 {
				list = append(list, torchsim.Region{Mechanism: torchsim.Replayed, Steps: steps})
			}
		}
		want := p.Simulate(calls)
		got, err := p.Rerun(list)
		require.NoError(t, err)
		want.Blocks = 0
		require.Equal(t, want, got, calls)
	}
	data, err := os.ReadFile("testdata/net.step.json")
	require.NoError(t, err)
	net, err := torchsim.ReadStep(bytes.NewReader(data))
	require.NoError(t, err)
	net.Early = false
	for i := range net.Steps {
		net.Steps[i].Random = false // no states
	}
	var blocks []int32
	for c, call := range net.Tree.Calls {
		if call.Outer < 0 {
			blocks = append(blocks, int32(c))
		}
	}
	for bits := range 1 << len(blocks) {
		var calls []int32
		for i, c := range blocks {
			if bits>>i&1 == 1 {
				calls = append(calls, c)
			}
		}
		compare(t, net.Program, calls)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := randomStep(t)
		var calls []int32
		for c := range p.Tree.Calls {
			if rapid.Bool().Draw(t, "on") {
				calls = append(calls, int32(c))
			}
		}
		compare(t, p, calls)
	})
}

// randomStep draws a program of three modules, whose steps read any storages that are there.
func randomStep(t *rapid.T) *torchsim.Program {
	calls := make([]modules.Call, 3)
	for i := range calls {
		calls[i].Outer = -1
	}
	p := &torchsim.Program{Tree: modules.Traced("2.15.0", calls, []string{"a", "b", "c"}, nil)}
	make1 := func() torchsim.StorageID {
		p.Storages = append(p.Storages, torchsim.Storage{Bytes: rapid.Int64Range(1, 99).Draw(t, "bytes")})
		return torchsim.StorageID(len(p.Storages) - 1)
	}
	reads := func(of, n int) (out []torchsim.StorageID) {
		for range rapid.IntRange(0, 2).Draw(t, "reads") {
			out = append(out, torchsim.StorageID(rapid.IntRange(0, min(of, n-1)).Draw(t, "storage")))
		}
		return out
	}
	make1()
	p.Storages[0].Held = true
	p.Held = p.Storages[0].Bytes
	p.Backward = rapid.IntRange(1, 9).Draw(t, "forward")
	made := []int{} // by step: storages that are there behind it
	for i := range p.Backward {
		s := torchsim.Step{Op: "op", Call: int32(i*4/p.Backward) - 1, Work: rapid.Int64Range(0, 9).Draw(t, "work"),
			Seconds: float64(i + 1)}
		s.Reads = reads(len(p.Storages), len(p.Storages))
		s.Makes = []torchsim.StorageID{make1()}
		p.Steps = append(p.Steps, s)
		made = append(made, len(p.Storages))
	}
	forward := len(p.Storages)
	for i := p.Backward - 1; i >= 0; i-- {
		s := torchsim.Step{Op: "back", Call: p.Steps[i].Call, Backward: true, Of: int32(i), Saves: true}
		s.Reads = append(reads(made[i], made[i]), torchsim.StorageID(made[i]-1))
		if len(p.Storages) > forward {
			s.Reads = append(s.Reads, torchsim.StorageID(len(p.Storages)-1))
		}
		s.Makes = []torchsim.StorageID{make1()}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// norm is a step of four modules, as a layer has them: a makes 1 of the input 0, norm makes 2 of that, the consumer 3
// of that, and last 4 of 3 and 1. Norm's backward reads 1, the consumer's 2.
func norm(t *testing.T) *torchsim.Program {
	t.Helper()
	calls := make([]modules.Call, 4)
	for i := range calls {
		calls[i].Outer = -1
	}
	p := &torchsim.Program{Backward: 4,
		Tree: modules.Traced("2.15.0", calls, []string{"a", "norm", "consumer", "last"}, nil)}
	for _, n := range []int64{8, 100, 40, 10, 1, 1, 10, 40, 100, 8} {
		p.Storages = append(p.Storages, torchsim.Storage{Bytes: n})
	}
	p.Storages[0].Held, p.Storages[9].Kept, p.Held = true, true, 8
	for i, op := range []string{"a", "norm", "consumer", "last"} {
		id := torchsim.StorageID(i)
		p.Steps = append(p.Steps, torchsim.Step{Op: op, Call: int32(i), Reads: []torchsim.StorageID{id},
			Makes: []torchsim.StorageID{id + 1}, Seconds: 1})
	}
	p.Steps[3].Reads = append(p.Steps[3].Reads, 1)
	back := func(op string, of int32, makes torchsim.StorageID, reads ...torchsim.StorageID) {
		p.Steps = append(p.Steps, torchsim.Step{Op: op, Call: of, Of: of, Backward: true, Saves: true, Reads: reads,
			Makes: []torchsim.StorageID{makes}})
	}
	back("last_back", 3, 6, 4, 3)
	back("consumer_back", 2, 7, 6, 2)
	back("norm_back", 1, 8, 7, 1)
	back("a_back", 0, 9, 8, 0)
	return p
}

// TestMechanisms: peaks and saved bytes of each mechanism, worked out by hand.
func TestMechanisms(t *testing.T) {
	p := norm(t)
	plain, err := p.Rerun(nil)
	require.NoError(t, err)
	require.Equal(t, int64(8+100+40+100), plain.Peak, "norm_back: 1, the gradients 7 and 8")
	require.Equal(t, int64(100+40+10+1), plain.Saved)

	// The result 2 is gone between the halves; it is there again from consumer_back on, and stays to norm_back, which
	// the function that made it runs: 1, 2, the gradients 7 and 8.
	list := []torchsim.Region{{Mechanism: torchsim.Discarding, Steps: []int32{1}, Until: []int32{2},
		State: 5}}
	u, err := p.Rerun(list)
	require.NoError(t, err)
	require.Equal(t, int64(8+5+100+40+40+100), u.Peak)
	require.Equal(t, int64(5+100+10+1), u.Saved)
	require.Equal(t, 1.0, u.Seconds)
	require.Equal(t, 6, u.At)
	require.False(t, u.Again)

	// A checkpoint that keeps its result has it twice: 1, 2 of the forward half until consumer_back, and then again.
	u, err = p.Rerun([]torchsim.Region{{Steps: []int32{1}}})
	require.NoError(t, err)
	require.Equal(t, int64(8+100+40+40+100), u.Peak)
	require.Equal(t, int64(100+40+10+1), u.Saved)

	// As a region that saves its tensors, it does not run again.
	u, err = p.Rerun([]torchsim.Region{{Mechanism: torchsim.Replayed, Steps: []int32{1, 2}, Saved: [][]int32{{2}}}})
	require.NoError(t, err)
	require.Equal(t, 1.0, u.Seconds)
	require.Equal(t, int64(100+10+1), u.Saved, "1 comes in, 3 and 4 are kept, 2 is made again")

	// A later reader of a result that is gone.
	p.Steps[3].Reads = append(p.Steps[3].Reads, 2)
	_, err = p.Rerun(list)
	require.EqualError(t, err, "step 3 reads what step 1 makes when that is freed")
	var e *torchsim.DiscardError
	require.ErrorAs(t, err, &e)
	_, err = p.Rerun([]torchsim.Region{{Steps: []int32{1}}})
	require.NoError(t, err)
}

// TestSumsApart: the gradient that comes into a region's function stays there, so that a sum onto it takes memory of
// its own; one onto a gradient that does not come in is in place.
func TestSumsApart(t *testing.T) {
	p := norm(t)
	sum := torchsim.Step{Op: "aten.add_.Tensor", Call: 1, Of: 1, Backward: true, Reads: []torchsim.StorageID{6, 8}}
	p.Steps = append(p.Steps[:7:7], sum, p.Steps[7])
	p.Steps[8].Reads = []torchsim.StorageID{6, 0}
	both := []torchsim.Region{{Steps: []int32{1, 2}}}
	u, err := p.Rerun(both)
	require.NoError(t, err)
	in := int64(8 + 100 + 10 + 10 + 100 + 10) // 1, the second 3, the gradients 6 and 8, and the sum
	require.Less(t, in, u.Peak, "2 and 7 are there at norm_back")
	p.Storages[6].Bytes = 1000
	u, err = p.Rerun(both)
	require.NoError(t, err)
	require.Equal(t, int64(8+100+10+1000+100+1000), u.Peak)
	require.Equal(t, 7, u.At)
	u, err = p.Rerun([]torchsim.Region{{Steps: []int32{1}}})
	require.NoError(t, err)
	require.Equal(t, int64(8+100+40+1000+40+100), u.Peak, "6 does not come into norm: only its sum reads it there")
}

// TestReadTooSoon: a forward step that reads a value of the backward half is taken as one that reads from outside.
func TestReadTooSoon(t *testing.T) {
	p := norm(t)
	p.Steps[1].Reads = append(p.Steps[1].Reads, 8)
	for _, x := range []torchsim.Mechanism{torchsim.Reentrant, torchsim.Replayed} {
		u, err := p.Rerun([]torchsim.Region{{Mechanism: x, Steps: []int32{1}}})
		require.NoError(t, err)
		require.Positive(t, u.Peak)
	}
}
