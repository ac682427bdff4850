package xla_test

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/hlo"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/sim/xla"
)

// kib is the bytes of f32[256], the shape of most values in these tests.
const kib = 1024

// run reads a module whose shapes are written as @ for f32[256]{0}, and runs it.
func run(t *testing.T, text string) *xla.Program {
	t.Helper()
	m, err := hlo.ReadText([]byte("HloModule m, is_scheduled=true\n" + strings.ReplaceAll(text, "@", "f32[256]{0}")))
	require.NoError(t, err)
	p, err := xla.Run(m)
	require.NoError(t, err)
	return p
}

// TestRules holds the bytes of temporaries at the fullest step to a count by hand, rule by rule. Values of four bytes
// lie in the memory of the result.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, text string
		heap       int64
	}{
		{"a temporary lives to its last reader", `
ENTRY e {
  a = @ parameter(0)
  b = @ sort(a), to_apply=e
  c = @ dot(b, a)
  d = @ dot(c, a)
  ROOT r = f32[] reduce(d, a)
}`, 2 * kib},
		{"an elementwise result lies in its operand", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ negate(b)
  d = @ abs(c)
  ROOT r = f32[] reduce(d, a)
}`, kib},
		{"a copy does not", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ copy(b)
  ROOT r = f32[] reduce(c, a)
}`, 2 * kib},
		{"nor an operand that is read later", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ negate(b)
  ROOT r = f32[] reduce(c, b)
}`, 2 * kib},
		{"nor another layout or type", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = s32[256]{0} convert(b)
  ROOT r = f32[] reduce(c, a)
}`, 2 * kib},
		{"a fusion may, where all is elementwise on the way", `
f {
  x = @ parameter(0)
  y = @ negate(x)
  ROOT z = @ exponential(y)
}
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ fusion(b), kind=kLoop, calls=f
  ROOT r = f32[] reduce(c, a)
}`, kib},
		{"and not where a sum is on the way", `
f {
  x = @ parameter(0)
  y = @ reverse(x)
  ROOT z = @ exponential(y)
}
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ fusion(b), kind=kLoop, calls=f
  ROOT r = f32[] reduce(c, a)
}`, 2 * kib},
		{"a bitcast is its operand", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = f32[16,16]{1,0} bitcast(b)
  ROOT r = f32[] reduce(c, a)
}`, kib},
		{"elements of a tuple live each for itself", `
ENTRY e {
  a = @ parameter(0)
  t = (@, @) custom-call(a), custom_call_target="two"
  x = @ get-tuple-element(t), index=1
  y = f32[1]{0} reduce(x)
  z = @ dot(y, a)
  ROOT r = f32[] reduce(z, a)
}`, 2*kib + 16},
		{"a dynamic-update-slice works in place", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  i = s32[] parameter(1)
  s = f32[1]{0} slice(a)
  c = @ dynamic-update-slice(b, s, i)
  ROOT r = f32[] reduce(c, a)
}`, kib},
		{"memory that is written in place takes no operand's", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ negate(b)
  i = s32[] parameter(1)
  s = f32[1]{0} slice(a)
  d = @ dynamic-update-slice(c, s, i)
  ROOT r = f32[] reduce(d, a)
}`, 2 * kib},
		{"a fusion that ends in a dynamic-update-slice works in place", `
f {
  x = @ parameter(0)
  s = f32[1]{0} parameter(1)
  i = s32[] parameter(2)
  ROOT c = @ dynamic-update-slice(x, s, i)
}
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  i = s32[] parameter(1)
  s = f32[1]{0} slice(a)
  c = @ fusion(b, s, i), kind=kCustom, calls=f
  ROOT r = f32[] reduce(c, a)
}`, kib},
		{"and a custom-call that says so", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ custom-call(b), custom_call_target="x", output_to_operand_aliasing={{}: (0, {})}
  ROOT r = f32[] reduce(c, a)
}`, kib},
		{"the body of a while is on top of the carry, which is free between its old and its new value", `
c {
  p = (s32[], @) parameter(0)
  ROOT x = pred[] custom-call(), custom_call_target="more"
}
b {
  p = (s32[], @) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = @ get-tuple-element(p), index=1
  x = @ dot(v, v)
  y = @ dot(x, x)
  z = @ dot(y, x)
  ROOT t = (s32[], @) tuple(i, z)
}
ENTRY e {
  a = @ parameter(0)
  i = s32[] constant(0)
  j = s32[] copy(i)
  v = @ copy(a)
  t = (s32[], @) tuple(j, v)
  w = (s32[], @) while(t), condition=c, body=b
  x = @ get-tuple-element(w), index=1
  ROOT r = f32[] reduce(x, a)
}`, 3 * kib},
		{"a call has its caller's values", `
f {
  x = @ parameter(0)
  y = @ dot(x, x)
  ROOT z = @ dot(y, y)
}
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ call(b), to_apply=f
  ROOT r = f32[] reduce(c, a)
}`, 2 * kib},
		{"branches are never there together", `
f {
  x = @ parameter(0)
  y = @ dot(x, x)
  ROOT z = @ dot(y, y)
}
g {
  x = @ parameter(0)
  ROOT z = @ dot(x, x)
}
ENTRY e {
  a = @ parameter(0)
  p = pred[] parameter(1)
  b = @ dot(a, a)
  c = @ conditional(p, b, b), true_computation=f, false_computation=g
  ROOT r = f32[] reduce(c, a)
}`, 3 * kib},
		{"a result stays to the end, wherever it is made", `
ENTRY e {
  a = @ parameter(0)
  ROOT r = @ dot(a, a)
  b = @ dot(a, a)
  c = @ dot(b, a)
}`, 2 * kib},
		{"so does the result of a called computation", `
f {
  x = @ parameter(0)
  ROOT y = @ dot(x, x)
  z = @ dot(x, x)
  q = @ dot(z, z)
}
ENTRY e {
  a = @ parameter(0)
  c = @ call(a), to_apply=f
  ROOT r = f32[] reduce(c, a)
}`, 3 * kib},
		{"of several arrays that are sorted, one lies in its operand", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = f32[128]{0} dot(a, a)
  t = (f32[128]{0}, @) sort(c, b)
  x = @ get-tuple-element(t), index=1
  ROOT r = f32[] reduce(x, c)
}`, kib + 2*512 + 16},
		{"constants are no memory of the run", `
ENTRY e {
  a = @ parameter(0)
  k = @ constant({...})
  ROOT r = f32[] reduce(k, a)
}`, 0},
		{"tokens and empty arrays are no bytes", `
ENTRY e {
  a = @ parameter(0)
  t = token[] after-all()
  z = f32[0,7]{1,0} slice(a)
  ROOT r = f32[] reduce(z, a)
}`, 0},
		{"dynamic dims have their bound and their numbers, small types a byte or their bits", `
ENTRY e {
  a = @ parameter(0)
  d = f32[<=8,2]{1,0} dot(a, a)
  s = s4[9]{0} dot(a, a)
  q = s4[9]{0:E(4)} dot(a, a)
  h = f8e4m3fn[3]{0} dot(a, a)
  ROOT r = f32[] reduce(d, s, q, h)
}`, 64 + 8 + 9 + 5 + 3},
		{"an asynchronous copy has its source and its target to its end", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  s = (@, @, u32[]) copy-start(b)
  x = @ dot(a, a)
  c = @ copy-done(s)
  ROOT r = f32[] reduce(c, x)
}`, 3*kib + 24},
		{"the result of an all-reduce in two parts is its operand's memory", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  s = @ all-reduce-start(b), to_apply=e
  c = @ all-reduce-done(s)
  ROOT r = f32[] reduce(c, a)
}`, kib},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(c.text, ", to_apply=e", "") // no computation calls itself
			p := run(t, text)
			require.Equal(t, c.heap, p.HeapBytes)
			require.GreaterOrEqual(t, p.ArenaBytes, p.HeapBytes)
			g, err := p.Graph()
			require.NoError(t, err)
			_, err = op.Infer(g)
			require.NoError(t, err)
			sizes, err := live.EvalSizes(g.Graph, nil)
			require.NoError(t, err)
			order, err := graph.Topological(g.Graph)
			require.NoError(t, err)
			line, err := live.Simulate(g.Graph, order, sizes)
			require.NoError(t, err)
			require.Equal(t, c.heap, line.Peak.Bytes, "the graph")
		})
	}
}

// TestDonated: a result lies in the argument that the module says, and other temporaries lie there while neither is in
// use; so they do in results.
func TestDonated(t *testing.T) {
	const body = `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ dot(b, b)
  d = @ dot(c, c)
  ROOT r = (@) tuple(d)
}`
	plain := run(t, body)
	require.EqualValues(t, kib, plain.ArgumentBytes)
	require.EqualValues(t, kib+8, plain.ResultBytes)
	require.Zero(t, plain.DonatedBytes)
	require.EqualValues(t, kib, plain.HeapBytes, "b lies in the memory of d")
	require.EqualValues(t, 3*kib+8, plain.LiveBytes())

	m, err := hlo.ReadText([]byte("HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }\n" +
		strings.ReplaceAll(body, "@", "f32[256]{0}")))
	require.NoError(t, err)
	p, err := xla.Run(m)
	require.NoError(t, err)
	require.EqualValues(t, kib, p.ArgumentBytes)
	require.EqualValues(t, kib, p.DonatedBytes)
	require.EqualValues(t, 8, p.ResultBytes)
	require.EqualValues(t, 2*kib, p.HeapBytes, "a is read by b, whose step cannot write there")
}

// The reads of modules that make no sense end in errors that name the instruction.
func TestNonsense(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"ENTRY e {\n a = f32[4] parameter(0)\n ROOT b = f32[4] get-tuple-element(a), index=2\n}",
			`"b": a value of 0 elements has no element 2`},
		{"ENTRY e {\n a = (f32[4]) parameter(0)\n ROOT b = f32[4] get-tuple-element(a), index=-1\n}", "no element -1"},
		{"ENTRY e {\n a = ((f32[4])) parameter(0)\n ROOT b = f32[4] get-tuple-element(a), index=0\n}",
			"is not that of its source"},
		{"ENTRY e {\n a = f32[4] parameter(0)\n ROOT b = (f32[4], f32[4]) tuple(a)\n}", "has 1 operands"},
		{"f {\n a = f32[4] parameter(3)\n}\n" +
			"ENTRY e {\n a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=f\n}",
			"parameter 3 of a call with 1"},
		{"ENTRY e {\n a = f32[4] parameter(0)\n b = f32[4] while(a)\n}", "calls 0 computations"},
		{"ENTRY e {\n a = f32[9000000000,9000000000] parameter(0)\n}", "2^50 elements"},
		{"ENTRY e {\n a = f32[1125899906842624] parameter(0)\n}", "2^50 bits"},
	} {
		m, err := hlo.ReadText([]byte("HloModule m\n" + c.text))
		require.NoError(t, err, c.text)
		_, err = xla.Run(m)
		require.ErrorContains(t, err, c.want, c.text)
	}
	for _, alias := range []string{"{5}: (0, {})", "{}: (7, {})", "{}: (0, {1})"} {
		m, err := hlo.ReadText([]byte("HloModule m, input_output_alias={ " + alias +
			" }\nENTRY e {\n a = f32[4] parameter(0)\n ROOT b = f32[4] negate(a)\n}"))
		require.NoError(t, err)
		_, err = xla.Run(m)
		require.ErrorContains(t, err, "input_output_alias", alias)
	}
}

// TestCallsInCalls: computations that double the steps with each call end in an error, not in all of memory.
func TestCallsInCalls(t *testing.T) {
	var b strings.Builder
	b.WriteString("HloModule m\nf0 {\n a = f32[4] parameter(0)\n b = f32[4] negate(a)\n}\n")
	for i := range 40 {
		fmt.Fprintf(&b, "f%d {\n a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=f%d\n"+
			" c = f32[4] call(b), to_apply=f%d\n}\n", i+1, i, i)
	}
	b.WriteString("ENTRY e {\n a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=f40\n}\n")
	m, err := hlo.ReadText([]byte(b.String()))
	require.NoError(t, err)
	_, err = xla.Run(m)
	require.ErrorContains(t, err, "steps, counting computations at each call")

	b.Reset()
	b.WriteString("HloModule m, is_scheduled=true\nf0 {\n a = f32[4] parameter(0)\n b = f32[4] negate(a)\n}\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "f%d {\n a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=f%d\n}\n", i+1, i)
	}
	b.WriteString("ENTRY e {\n a = f32[4] parameter(0)\n b = f32[4] call(a), to_apply=f2000\n}\n")
	m, err = hlo.ReadText([]byte(b.String()))
	require.NoError(t, err)
	_, err = xla.Run(m)
	require.ErrorContains(t, err, "calls nest deeper")

	// Before XLA's optimizations, calls are inlined.
	m, err = hlo.ReadText([]byte(strings.Replace(b.String(), ", is_scheduled=true", "", 1)))
	require.NoError(t, err)
	_, err = xla.Run(m)
	require.NoError(t, err)
}

// bytesOf are the figures of `compiled.memory_analysis()`, as bench/hlo/steps.py writes them.
type bytesOf struct {
	Argument  int64 `json:"argument_bytes"`
	Output    int64 `json:"output_bytes"`
	Temporary int64 `json:"temporary_bytes"`
	Aliased   int64 `json:"aliased_bytes"`
}

// steps are the training steps that JAX compiled for the CPU: their figures, and the files of each.
func steps(t *testing.T) (map[string]bytesOf, func(name string) []byte) {
	z, err := zip.OpenReader("../../graph/hlo/testdata/steps.zip")
	require.NoError(t, err)
	t.Cleanup(func() { z.Close() })
	read := func(name string) []byte {
		f, err := z.Open(name)
		require.NoError(t, err)
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		return data
	}
	var table struct{ Steps map[string]bytesOf }
	require.NoError(t, json.Unmarshal(read("steps.json"), &table))
	require.NotEmpty(t, table.Steps)
	return table.Steps, read
}

// TestCompiled holds the bytes of programs to XLA's own figures: arguments, results and donated ones to the byte, the
// peak within 1.5 %.
func TestCompiled(t *testing.T) {
	table, read := steps(t)
	for name, want := range table {
		t.Run(name, func(t *testing.T) {
			m, err := hlo.Read(read(name + ".hlo"))
			require.NoError(t, err)
			p, err := xla.Run(m)
			require.NoError(t, err)
			require.Equal(t, want.Argument, p.ArgumentBytes)
			require.Equal(t, want.Output, p.ResultBytes+p.DonatedBytes)
			require.Equal(t, want.Aliased, p.DonatedBytes)
			all := want.Argument + want.Output + want.Temporary - want.Aliased
			require.InEpsilon(t, all, p.LiveBytes(), 0.015)
			require.True(t, p.Packed)
			require.InEpsilon(t, all, p.LiveBytes()-p.HeapBytes+p.ArenaBytes, 0.015)
			apart(t, p)
		})
	}
}

// apart checks that no two buffers that are in use at one step share memory.
func apart(t *testing.T, p *xla.Program) {
	var list []*xla.Buffer
	most := map[int32]int64{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Role == xla.Temporary && b.Within < 0 && b.Bytes > 0 {
			list = append(list, b)
			require.LessOrEqual(t, b.Offset+b.Bytes, p.ArenaBytes)
			require.Zero(t, b.Offset%64)
		}
		if b.Within >= 0 {
			most[b.Within] = max(most[b.Within], b.Bytes)
		}
	}
	for host, bytes := range most {
		require.LessOrEqual(t, bytes, p.Buffers[host].Bytes)
	}
	slices.SortFunc(list, func(a, b *xla.Buffer) int { return int(a.Maker - b.Maker) })
	for i, a := range list {
		for _, b := range list[:i] {
			if a.Offset < b.Offset+b.Bytes && b.Offset < a.Offset+a.Bytes {
				require.False(t, together(a.Spans, b.Spans), "%s and %s", p.Steps[a.Maker].In().Name,
					p.Steps[b.Maker].In().Name)
			}
		}
	}
}

// together reports whether two buffers are in use at a step that is not the last of one of them.
func together(a, b []xla.Span) bool {
	for _, s := range a {
		for _, t := range b {
			if s.From < t.To && t.From < s.To || s.From == t.From && s.To > s.From && t.To > t.From {
				return true
			}
		}
	}
	return false
}

// TestGraph: the graph of a program has the live bytes of its heap at every step, by the memory model of plans.
func TestGraph(t *testing.T) {
	table, read := steps(t)
	for name := range table {
		t.Run(name, func(t *testing.T) {
			m, err := hlo.Read(read(name + ".hlo"))
			require.NoError(t, err)
			p, err := xla.Run(m)
			require.NoError(t, err)
			g, err := p.Graph()
			require.NoError(t, err)
			types, err := op.Infer(g)
			require.NoError(t, err)
			require.Empty(t, types.NoRow)
			order, err := graph.Topological(g.Graph)
			require.NoError(t, err)
			for i, id := range order {
				require.EqualValues(t, i, id, "the file's order")
			}
			sizes, err := live.EvalSizes(g.Graph, nil)
			require.NoError(t, err)
			line, err := live.Simulate(g.Graph, order, sizes)
			require.NoError(t, err)
			require.Equal(t, p.HeapBytes, line.Peak.Bytes)
			held, err := live.PersistentBytes(g.Graph, sizes)
			require.NoError(t, err)
			require.Equal(t, p.ArgumentBytes+p.ResultBytes, held)
		})
	}
}

// TestAgain: which steps a plan may run a second time.
func TestAgain(t *testing.T) {
	m, err := hlo.ReadText([]byte("HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }\n" +
		strings.ReplaceAll(`
f {
  x = @ parameter(0)
  inside = @ dot(x, x)
}
g {
  y = @ parameter(0)
  ROOT noise = @ rng-bit-generator(y)
}
ENTRY e {
  a = @ parameter(0)
  k = @ parameter(1)
  plain = @ dot(k, k)
  of_donated = @ dot(a, k)
  too_late = @ dot(a, of_donated)
  sum = @ all-reduce(plain), to_apply=f
  foreign = @ custom-call(plain), custom_call_target="x"
  random = @ fusion(plain), kind=kLoop, calls=g
  called = @ call(plain), to_apply=f
  first = f32[1]{0} reduce(sum, foreign, random, called, plain)
  new = @ dot(first, too_late)
  after = f32[] dot(too_late, k)
  ROOT r = (@, f32[]) tuple(new, after)
}`, "@", "f32[256]{0}")))
	require.NoError(t, err)
	p, err := xla.Run(m)
	require.NoError(t, err)
	g, err := p.Graph()
	require.NoError(t, err)
	again := map[string]bool{}
	for _, n := range g.Graph.Nodes {
		again[n.Name] = n.Domain == op.DomainXLA || n.Domain == op.DomainXLAInPlace
	}
	require.Equal(t, map[string]bool{"plain": true, "of_donated": true, "too_late": false, "sum": false,
		"foreign": false, "random": false, "inside": false, "first": false, "new": false, "after": false, "r": false},
		again, "sum lies in a, which too_late would read again for after; first lies in the memory of after")
}

// TestAgainInARow: a step is not repeatable either where a step that reads its result may be wanted too late.
func TestAgainInARow(t *testing.T) {
	m, err := hlo.ReadText([]byte("HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }\n" +
		strings.ReplaceAll(`
ENTRY e {
  a = @ parameter(0)
  k = @ parameter(1)
  n = @ dot(a, k)
  m = @ dot(n, k)
  new = @ dot(m, k)
  late = f32[] dot(m, k)
  ROOT r = (@, f32[]) tuple(new, late)
}`, "@", "f32[256]{0}")))
	require.NoError(t, err)
	p, err := xla.Run(m)
	require.NoError(t, err)
	g, err := p.Graph()
	require.NoError(t, err)
	for _, n := range g.Graph.Nodes {
		require.Equal(t, n.Name == "m", n.Domain == op.DomainXLA, n.Name)
	}
}

// TestBoundary: the backward half begins where the fewest nodes are on the wrong side.
func TestBoundary(t *testing.T) {
	p := run(t, `
ENTRY e {
  a = @ parameter(0)
  z = @ dot(a, a), metadata={op_name="jit(f)/transpose(jvp())/zeros"}
  f = @ dot(a, a), metadata={op_name="jit(f)/jvp()/first"}
  g = @ dot(f, a), metadata={op_name="jit(f)/jvp()/second"}
  h = @ dot(g, z), metadata={op_name="jit(f)/transpose(jvp())/third"}
  i = @ dot(h, f), metadata={op_name="jit(f)/transpose(jvp())/checkpoint/rematted_computation/fourth"}
  ROOT r = f32[] reduce(i, a)
}`)
	m, err := p.Graph()
	require.NoError(t, err)
	text, ok := m.Meta(live.BoundaryKey)
	require.True(t, ok)
	require.Contains(t, text, `"backward":"transpose(jvp())/third"`)
	require.Contains(t, text, `"node":"jvp()/second"`)
}
