package xla_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/hlo"
	"memopt/graph/live"
	"memopt/sim/xla"
)

// early runs a module as it is before XLA's passes; @ stands for f32[256]{0}.
func early(t require.TestingT, text string) *xla.Program {
	m, err := hlo.ReadText([]byte("HloModule m\n" + strings.ReplaceAll(text, "@", "f32[256]{0}")))
	require.NoError(t, err)
	p, err := xla.Run(m)
	require.NoError(t, err)
	return p
}

// TestHost counts the memory of the device and of the host by hand.
func TestHost(t *testing.T) {
	for _, c := range []struct {
		name, text string
		heap, host int64
	}{
		{"layouts", `
ENTRY e {
  a = @ parameter(0)
  h = f32[256]{0:S(5)} parameter(1)
  b = @ dot(a, a)
  g = f32[256]{0:S(5)} copy(b)
  c = @ dot(b, a)
  d = @ copy(g)
  f = @ dot(c, d)
  i = @ copy(h)
  ROOT r = f32[] reduce(f, i)
}`, 3 * kib, 2 * kib},
		{"a value moves to the host and back", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  h = @ custom-call(b), custom_call_target="MoveToHost"
  s = f32[16,16]{1,0} reshape(h)
  c = @ dot(a, a)
  u = @ reshape(s)
  d = @ custom-call(u), custom_call_target="MoveToDevice"
  ROOT r = f32[] reduce(d, c)
}`, 2 * kib, 2 * kib},
		{"by the annotations of JAX", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  h = @ custom-call(b), custom_call_target="annotate_device_placement", frontend_attributes={_xla_buffer_placement="pinned_host"}
  c = @ dot(a, a)
  d = @ custom-call(h), custom_call_target="annotate_device_placement", frontend_attributes={_xla_buffer_placement="device"}
  ROOT r = f32[] reduce(d, c)
}`, 2 * kib, kib},
		{"arithmetic brings a value back", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  h = @ custom-call(b), custom_call_target="MoveToHost"
  c = @ negate(h)
  ROOT r = f32[] reduce(c, a)
}`, kib, kib},
		{"a move to where the value is makes none", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  d = @ custom-call(b), custom_call_target="MoveToDevice"
  c = @ dot(d, b)
  ROOT r = f32[] reduce(c, a)
}`, 2 * kib, 0},
		{"an unknown placement is a custom-call as any other", `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  d = @ custom-call(b), custom_call_target="annotate_device_placement", frontend_attributes={_xla_buffer_placement="moon"}
  c = @ dot(d, b)
  ROOT r = f32[] reduce(c, a)
}`, 3 * kib, 0},
		{"an update takes the whole along, the index does not", `
ENTRY e {
  a = @ parameter(0)
  z = f32[1024]{0} broadcast(a)
  y = f32[1024]{0} broadcast(a)
  b = @ dot(a, a)
  i = s32[] parameter(1)
  j = s32[] custom-call(i), custom_call_target="MoveToHost"
  h = @ custom-call(b), custom_call_target="MoveToHost"
  u = f32[1024]{0} dynamic-update-slice(z, h, i)
  v = f32[1024]{0} dynamic-update-slice(y, a, j)
  s = @ dynamic-slice(u, i)
  d = @ custom-call(s), custom_call_target="MoveToDevice"
  ROOT r = f32[] reduce(d, v)
}`, 5 * kib, 5*kib + 4},
		{"arguments and results", `
ENTRY e {
  a = f32[256]{0:S(5)} parameter(0)
  b = @ copy(a)
  ROOT r = f32[256]{0:S(5)} copy(b)
}`, kib, 2 * kib},
	} {
		p := early(t, c.text)
		require.Equal(t, c.heap, p.HeapBytes, c.name)
		require.Equal(t, c.host, p.HostBytes, c.name)
		m, err := p.Graph()
		require.NoError(t, err, c.name)
		require.NotEmpty(t, m.Graph.Nodes, c.name)
	}
	p := early(t, `
ENTRY e {
  a = f32[256]{0:S(5)} parameter(0)
  ROOT r = f32[256]{0:S(5)} copy(a)
}`)
	require.Zero(t, p.LiveBytes())
}

// TestOffloadedScan reads a step that JAX lowered, whose residuals go to the host from turn to turn: two stacks of four
// values, which begin as one and the same zeros, and the values on their way. The third stack stays on the device.
func TestOffloadedScan(t *testing.T) {
	_, read := steps(t)
	m, err := hlo.Read(read("small_offload.hlo"))
	require.NoError(t, err)
	p, err := xla.Run(m)
	require.NoError(t, err)
	const value = 64 * 32 * 4
	require.EqualValues(t, 2*4*value+2*value, p.HostBytes)
	stacks := map[bool]int{}
	for _, b := range p.Buffers {
		if b.Bytes == 4*value {
			stacks[b.Host]++
		}
	}
	require.Equal(t, map[bool]int{true: 2, false: 1}, stacks)
}

// loop is a while whose body overwrites the elements of its carry but the last, with the given tuple to begin with.
func loop(first, before, after string) string {
	return `
c {
  p = (@, @, @) parameter(0)
  ROOT x = pred[] custom-call(), custom_call_target="more"
}
b {
  p = (@, @, @) parameter(0)
  u = @ get-tuple-element(p), index=0
  v = @ get-tuple-element(p), index=1
  w = @ get-tuple-element(p), index=2
  x = @ dot(u, w)
  y = @ dot(v, x)
  ROOT t = (@, @, @) tuple(x, y, w)
}
ENTRY e {
  a = @ parameter(0)
  z = @ broadcast(a)
  ` + before + `
  t = (@, @, @) tuple(` + first + `)
  w = (@, @, @) while(t), condition=c, body=b
  x = @ get-tuple-element(w), index=0
  y = @ get-tuple-element(w), index=1
  ` + after + `
}`
}

// TestCarry counts the copies that a loop needs before XLA's copy insertion: of a value that the carry has twice and
// overwrites, and of one that is not the program's to overwrite. The body makes its values in the carry.
func TestCarry(t *testing.T) {
	const end = "ROOT r = f32[] reduce(x, y)"
	for _, c := range []struct {
		name, text string
		values     int64
	}{
		{"three values", loop("z, k, l", "k = @ dot(z, a)  l = @ dot(a, z)", end), 3},
		{"one value twice", loop("z, z, l", "l = @ dot(a, z)", end), 3},
		{"one value that is overwritten and read", loop("z, k, z", "k = @ dot(z, a)", end), 3},
		{"three times", loop("z, z, z", "", end), 3},
		{"an argument that is overwritten", loop("a, z, l", "l = @ dot(a, z)", end), 3},
		{"an argument that is read", loop("z, k, a", "k = @ dot(z, a)", end), 2},
	} {
		p := early(t, c.text)
		require.Equal(t, c.values*kib+24, p.HeapBytes, c.name)
		_, err := p.Graph()
		require.NoError(t, err, c.name)
	}
	// A scheduled module has had its copies inserted.
	require.EqualValues(t, kib+24, run(t, loop("z, z, z", "", end)).HeapBytes)
	// A donated argument is the program's own.
	m, err := hlo.ReadText([]byte("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n" + strings.ReplaceAll(
		loop("a, z, l", "l = @ dot(z, z)", "ROOT r = (@, @) tuple(x, y)"), "@", "f32[256]{0}")))
	require.NoError(t, err)
	p, err := xla.Run(m)
	require.NoError(t, err)
	require.EqualValues(t, kib, p.DonatedBytes)
	require.EqualValues(t, kib+24+1, p.HeapBytes) // l, the carry's table, the condition's byte; z lies in the result
}

// TestUnmarked: a program without names of halves is parted at its fullest step, so that it can be planned.
func TestUnmarked(t *testing.T) {
	p := early(t, `
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ dot(b, a)
  d = @ dot(c, a)
  e = @ dot(d, c)
  f = @ dot(e, b)
  ROOT r = f32[] reduce(f, a)
}`)
	m, err := p.Graph()
	require.NoError(t, err)
	require.False(t, p.Marked)
	b, err := live.FindBoundary(m)
	require.NoError(t, err)
	require.Equal(t, p.PeakLabel(), m.Graph.NodeLabel(b.Backward))

	p = early(t, "ENTRY e {\n  ROOT a = @ parameter(0)\n}")
	m, err = p.Graph()
	require.NoError(t, err)
	_, err = live.FindBoundary(m)
	require.Error(t, err)
}

// TestCaveats says which passes have not run.
func TestCaveats(t *testing.T) {
	require.Empty(t, run(t, "ENTRY e {\n  ROOT a = @ parameter(0)\n}").Caveats())
	list := early(t, "ENTRY e {\n  a = f32[8]{0} parameter(0), sharding={devices=[4]<=[4]}\n"+
		"  ROOT b = f32[8]{0} negate(a)\n}")
	require.Len(t, list.Caveats(), 2)
	require.Contains(t, list.Caveats()[0], "all 4 devices")
	require.EqualValues(t, 8, list.ArgumentPartBytes())
	fused := early(t, "f {\n  ROOT x = @ parameter(0)\n}\nENTRY e {\n  a = @ parameter(0)\n"+
		"  ROOT b = @ fusion(a), kind=kLoop, calls=f\n}")
	require.Empty(t, fused.Caveats())
}
