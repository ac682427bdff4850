package moduleplan_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/modules"
	"memopt/graph/op"
	_ "memopt/internal/test/rapidflags"
	"memopt/planner/moduleplan"
	torchsim "memopt/sim/torch"
)

// net describes a program: blocks of two halves, each a product, an activation and a product.
type net struct {
	batch  int
	widths []int // inner, by block
	skips  bool  // something that the first block makes is needed at the end alone
	gated  bool  // the second half has three operators more
	ends   bool  // blocks end with an activation, whose result they save themselves
	listed bool  // blocks are items of two lists
	first  bool  // a module without others in it comes before the blocks
	old    bool  // checkpoints in checkpoints are those of PyTorch up to 2.0
}

const width = 8 // between blocks

// program builds the step of a net.
func (n net) program(t require.TestingT) *torchsim.Program {
	var b, in, late strings.Builder
	var wrt []string
	layer := func(path, x, y string, from, to int) {
		w := fmt.Sprintf("w%d", len(wrt))
		wrt = append(wrt, w)
		fmt.Fprintf(&in, ", float[%d, %d] %s", from, to, w)
		fmt.Fprintf(&b, "[\"%s/fc/Gemm\"] %s = Gemm (%s, %s)\n", path, y, x, w)
	}
	into := "h0_in"
	if n.first {
		into = "embedded"
		fmt.Fprintf(&late, "[\"/first/Tanh\"] f0 = Tanh (embedded)\n[\"/first/Exp\"] f1 = Exp (f0)\n"+
			"[\"/first/Mul\"] h0_in = Mul (f0, f1)\n")
	}
	layer("/embed", "x", into, width, width)
	b.WriteString(late.String())
	late.Reset()
	for i, inner := range n.widths {
		at, h := fmt.Sprintf("/h.%d", i), fmt.Sprintf("h%d_", i)
		if n.listed {
			at = fmt.Sprintf("/l%d/l%d.%d", i/2, i/2, i%2)
		}
		for k, half := range []string{"/attn", "/mlp"} {
			from := h + []string{"in", "mid"}[k]
			a := fmt.Sprintf("%s%d", h, k)
			layer(at+half, from, a+"a", width, inner)
			act := a + "a"
			if k == 1 && n.gated {
				fmt.Fprintf(&b, "[\"%s%s/act/Exp\"] %se = Exp (%sa)\n", at, half, a, a)
				fmt.Fprintf(&b, "[\"%s%s/act/Mul\"] %sg = Mul (%se, %sa)\n", at, half, a, a, a)
				act = a + "g"
			}
			fmt.Fprintf(&b, "[\"%s%s/act/Relu\"] %sr = Relu (%s)\n", at, half, a, act)
			layer(at+half+"/out", a+"r", a+"o", inner, width)
			to := h + "mid"
			if k == 1 {
				to = fmt.Sprintf("h%d_in", i+1)
			}
			if k == 1 && n.ends {
				fmt.Fprintf(&b, "[\"%s/end/Relu\"] %s = Relu (%send)\n", at, to, h)
				to = h + "end"
				fmt.Fprintf(&late, "[\"%s/Add_%d\"] %s = Add (%s, %so)\n", at, k, to, from, a)
				text := b.String()
				cut := strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n') + 1
				b.Reset()
				b.WriteString(text[:cut] + late.String() + text[cut:])
				late.Reset()
				continue
			}
			fmt.Fprintf(&b, "[\"%s/Add_%d\"] %s = Add (%s, %so)\n", at, k, to, from, a)
		}
	}
	if n.skips { // of the first block, for the end alone
		text := b.String()
		cut := strings.Index(text, "mlp")
		cut = strings.LastIndexByte(text[:cut], '\n') + 1
		path := text[cut+2 : cut+2+strings.Index(text[cut:], "/mlp")-2]
		b.Reset()
		fmt.Fprintf(&b, "%s[\"%s/side/Exp\"] side = Exp (h0_mid)\n%s", text[:cut], path, text[cut:])
	}
	last := fmt.Sprintf("h%d_in", len(n.widths))
	if n.skips {
		fmt.Fprintf(&b, "[\"/Skip\"] skipped = Add (%s, side)\n", last)
		last = "skipped"
	}
	layer("/head", last, "out", width, 64)
	fmt.Fprintf(&b, "[\"/Loss\"] loss = ReduceMean <keepdims = 0> (out)\n")
	text := fmt.Sprintf("<ir_version: 8, opset_import: [\"\" : 17]> m (float[%d, %d] x%s) => (float loss) {\n%s}\n",
		n.batch, width, in.String(), b.String())
	m, err := graph.Parse(text, "m")
	require.NoError(t, err, "%s", text)
	types, err := op.InferAsIs(m)
	require.NoError(t, err)
	tree, err := modules.Read(m, nil)
	require.NoError(t, err)
	seconds := make([]float64, len(m.Graph.Nodes))
	for i := range seconds {
		seconds[i] = 1 + float64(i%7)/8
	}
	p, err := torchsim.Build(m, types, torchsim.Options{Tree: tree, Wrt: wrt, Loss: "loss", Seconds: seconds})
	require.NoError(t, err, "%s", text)
	p.Stacked = !n.old
	return p
}

// someNet draws a net.
func someNet(r *rapid.T, most int) net {
	return net{batch: rapid.IntRange(1, 400).Draw(r, "batch"),
		widths: rapid.SliceOfN(rapid.IntRange(1, 96), 2, most).Draw(r, "widths"),
		skips:  rapid.Bool().Draw(r, "skips"), gated: rapid.Bool().Draw(r, "gated"),
		ends: rapid.Bool().Draw(r, "ends"), listed: rapid.Bool().Draw(r, "listed"),
		first: rapid.Bool().Draw(r, "first"), old: rapid.Bool().Draw(r, "old")}
}

// TestChain: the terms of a chain add up to the peak of the simulator, for every choice.
func TestChain(t *testing.T) {
	chains := 0
	rapid.Check(t, func(r *rapid.T) {
		n := someNet(r, 4)
		s := moduleplan.New(context.Background(), n.program(r))
		if !s.Chain() {
			require.True(r, n.skips, "blocks one after the other are a chain")
			return
		}
		chains++
		s.Choices(func(calls []int32, peak, terms int64, _ float64) {
			if terms >= 0 { // lists of blocks may be no chain where blocks are
				require.Equal(r, peak, terms, "%v", calls)
			}
		})
	})
	require.Positive(t, chains)
}

// TestBest: the plan is as cheap as the best of all choices, also where units are no chain; where nothing fits, its
// peak is the lowest of all.
func TestBest(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := moduleplan.New(context.Background(), someNet(r, 4).program(r))
		none := s.Of(nil).Usage.Peak
		limit := none - int64(rapid.Float64Range(0, 0.9).Draw(r, "less")*float64(none))
		cheapest, lowest := -1.0, none
		s.Choices(func(_ []int32, peak, _ int64, seconds float64) {
			if lowest = min(lowest, peak); peak <= limit && (cheapest < 0 || seconds < cheapest) {
				cheapest = seconds
			}
		})
		p, ok := s.Best(context.Background(), limit)
		require.Equal(r, cheapest >= 0, ok)
		require.True(r, p.Exact)
		if ok {
			require.LessOrEqual(r, p.Usage.Peak, limit)
			require.InDelta(r, cheapest, p.Usage.Seconds, 1e-9)
		} else {
			require.InDelta(r, float64(lowest), float64(p.Usage.Peak), 1+float64(none)/1024)
		}
	})
}

// TestLocal: the search by changes fits, and is never cheaper than the best of all.
func TestLocal(t *testing.T) {
	found, near := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		p := someNet(r, 4).program(r)
		s, exact := moduleplan.New(context.Background(), p), moduleplan.New(context.Background(), p)
		s.Local()
		none := s.Of(nil).Usage.Peak
		limit := none - int64(rapid.Float64Range(0, 0.4).Draw(r, "less")*float64(none))
		best, ok := exact.Best(context.Background(), limit)
		got, fits := s.Best(context.Background(), limit)
		if !ok {
			require.False(r, fits)
			return
		}
		require.False(r, got.Exact, "a search by changes proves nothing, of a lowest peak either")
		if found++; fits {
			require.LessOrEqual(r, got.Usage.Peak, limit)
			require.GreaterOrEqual(r, got.Usage.Seconds, best.Usage.Seconds-1e-9)
			if got.Usage.Seconds <= 1.25*best.Usage.Seconds {
				near++
			}
		}
	})
	require.Greater(t, 10*near, 9*found, "%d of %d plans are at most a quarter above the best", near, found)
}

// TestLarge: with few options of each unit first a plan is as cheap as without them, and as exact; without time it
// still fits wherever the first units fit, each recomputed as a whole, and it takes no unit more than needed.
func TestLarge(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	hurried, few := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		p := someNet(r, 4).program(r)
		s, large := moduleplan.New(context.Background(), p), moduleplan.New(context.Background(), p)
		most := rapid.IntRange(2, 4).Draw(r, "most")
		large.Large(most)
		none := s.Of(nil).Usage.Peak
		limit := none - int64(rapid.Float64Range(0, 0.6).Draw(r, "less")*float64(none))
		first, fits, more := s.Wholes(limit)
		require.False(r, more)
		if fits {
			require.LessOrEqual(r, first.Usage.Peak, limit)
		}
		got, ok := large.Best(ended, limit)
		if ok {
			require.LessOrEqual(r, got.Usage.Peak, limit)
		} else {
			require.LessOrEqual(r, got.Usage.Peak, none)
		}
		require.Equal(r, fits || ok, ok)
		require.False(r, got.Exact)
		if ok && none > limit {
			hurried++
		}
		want, ok := s.Best(context.Background(), limit)
		got, fits = large.Best(context.Background(), limit)
		if s.Chain() {
			few++
			require.Equal(r, ok, fits)
			require.Equal(r, want.Exact, got.Exact)
		}
		if ok && s.Chain() {
			require.InDelta(r, want.Usage.Seconds, got.Usage.Seconds, 1e-9)
		}
	})
	require.Positive(t, hurried)
	require.Positive(t, few)
}

// TestNested: a half that runs again inside its block lowers the peak below that of all choices without nesting.
func TestNested(t *testing.T) {
	for _, old := range []bool{false, true} {
		p := net{batch: 400, widths: []int{96, 96, 96, 96}, old: old}.program(t)
		s := moduleplan.New(context.Background(), p)
		nested := func(calls []int32) bool {
			return slices.ContainsFunc(calls, func(c int32) bool {
				return slices.Contains(calls, p.Tree.Calls[c].Outer)
			})
		}
		flat := s.Of(nil).Usage.Peak
		s.Choices(func(calls []int32, peak, _ int64, _ float64) {
			if !nested(calls) {
				flat = min(flat, peak)
			}
		})
		best, ok := s.Best(context.Background(), flat-1)
		require.True(t, ok)
		require.True(t, nested(best.Calls), "%v", best.Calls)
		require.Less(t, best.Usage.Peak, flat)
	}
}

// TestInterrupted: a search that is told to stop returns a choice all the same.
func TestInterrupted(t *testing.T) {
	s := moduleplan.New(context.Background(), net{batch: 64, widths: []int{32, 32, 32}}.program(t))
	s.Local()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, ok := s.Best(ctx, 1)
	require.False(t, ok)
	require.False(t, p.Exact, "a search that was interrupted proves nothing")
	require.True(t, s.Of(nil).Usage.Peak >= p.Usage.Peak)
	require.Positive(t, p.Usage.Peak)
}

// TestOptionsStopped: the options of a large program are found until the context ends, and then the rest of the units
// are recomputed as a whole; those of a small one are found in any case.
func TestOptionsStopped(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	widths := slices.Repeat([]int{32}, 100)
	small := net{batch: 512, widths: widths[:3]}.program(t)
	require.Equal(t, moduleplan.New(context.Background(), small).Options(), moduleplan.New(ended, small).Options())
	large := net{batch: 512, widths: widths}.program(t)
	s := moduleplan.New(ended, large)
	require.Less(t, s.Options(), moduleplan.New(context.Background(), large).Options())
	require.Len(t, s.Blocks(), len(widths))
	most := s.Of(nil).Usage.Peak
	p, ok := s.Best(context.Background(), most*9/10)
	require.True(t, ok)
	require.LessOrEqual(t, p.Usage.Peak, most*9/10)
	require.False(t, p.Exact)
}

// TestBlocks: every block is one, and what has no modules in it is none.
func TestBlocks(t *testing.T) {
	p := net{batch: 4096, widths: []int{32, 32, 32}, first: true}.program(t)
	s := moduleplan.New(context.Background(), p)
	var names []string
	for _, c := range s.Blocks() {
		names = append(names, p.Tree.Modules[p.Tree.Calls[c].Module].Name)
	}
	require.Equal(t, []string{"h.0", "h.1", "h.2"}, names)
	every := s.Of(s.Blocks())
	require.Less(t, every.Usage.Saved, s.Of(nil).Usage.Saved)
	require.Positive(t, every.Usage.Seconds)
	// A module that a step calls twice cannot be under a checkpoint.
	p.Tree.Modules[p.Tree.Lookup("h.1")].Calls = 2
	p.Tree.Modules[p.Tree.Lookup("h.2")].Refusal = "it is odd"
	require.Equal(t, "it is odd", moduleplan.Usable(p.Tree, p.Tree.Of[slices.Index(p.Tree.Of, every.Calls[2])]))
	again := moduleplan.New(context.Background(), p)
	require.Len(t, again.Blocks(), 5, "h.0, and the halves of the others")
}

// masked adds a mask to a program that the first step makes and each block reads in its forward half alone, as layers
// read an attention mask; in a program under torch.autocast, a cast of a parameter in each block as well.
func masked(p *torchsim.Program, bytes int64, casts bool) *torchsim.Program {
	id := torchsim.StorageID(len(p.Storages))
	p.Storages = append(p.Storages, torchsim.Storage{Bytes: bytes})
	p.Steps[0].Makes = append(p.Steps[0].Makes, id)
	for i := range p.Steps[:p.Backward] {
		if s := &p.Steps[i]; s.Call >= 0 && i%2 == 1 {
			s.Reads = append(s.Reads, id)
			if casts {
				cast := torchsim.StorageID(len(p.Storages))
				p.Storages = append(p.Storages, torchsim.Storage{Bytes: bytes / 2, Cached: true})
				s.Makes = append(s.Makes, cast)
			}
		}
	}
	return p
}

// TestMask: programs whose units are nearly a chain have plans that fit, at the cost of the cheapest choice or
// more; where none fits, the lowest peak of all choices is not far below the plan's.
func TestMask(t *testing.T) {
	nearly := 0
	rapid.Check(t, func(r *rapid.T) {
		n := someNet(r, 4)
		n.skips = false
		bytes, casts := int64(rapid.IntRange(1, 4000).Draw(r, "bytes")), rapid.Bool().Draw(r, "casts")
		s := moduleplan.New(context.Background(), masked(n.program(r), bytes, casts))
		if !s.Nearly() {
			return
		}
		nearly++
		none := s.Of(nil).Usage.Peak
		limit := none - int64(rapid.Float64Range(0, 0.7).Draw(r, "less")*float64(none))
		cheapest, lowest := -1.0, none
		s.Choices(func(_ []int32, peak, _ int64, seconds float64) {
			if lowest = min(lowest, peak); peak <= limit && (cheapest < 0 || seconds < cheapest) {
				cheapest = seconds
			}
		})
		s.Many()
		p, ok := s.Best(context.Background(), limit)
		if ok {
			require.LessOrEqual(r, p.Usage.Peak, limit)
			require.GreaterOrEqual(r, p.Usage.Seconds, cheapest-1e-9)
		} else {
			require.LessOrEqual(r, float64(p.Usage.Peak), float64(lowest)+float64(none)/4)
		}
		if cheapest < 0 {
			require.False(r, ok)
		}
	})
	require.Positive(t, nearly)
}
