package hlo_test

import (
	"archive/zip"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/hlo"
	"memopt/sim/xla"
)

// samples are programs that JAX compiled, by name: name.hlo is the text, name.hlo.pb the protocol buffer
// (bench/hlo/steps.py).
func samples(t testing.TB) map[string][]byte {
	z, err := zip.OpenReader("testdata/steps.zip")
	require.NoError(t, err)
	defer z.Close()
	out := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		out[f.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	return out
}

// TestTextAgreesWithProto: the two forms of a module give equal structs. Each is written by XLA, and read by code of
// its own.
func TestTextAgreesWithProto(t *testing.T) {
	files := samples(t)
	n := 0
	for name, data := range files {
		stem, ok := strings.CutSuffix(name, ".hlo")
		if !ok {
			continue
		}
		n++
		text, err := hlo.Read(data)
		require.NoError(t, err, name)
		proto, err := hlo.Read(files[stem+".hlo.pb"])
		require.NoError(t, err, name)
		proto.Partitions = text.Partitions // a protocol buffer does not have them
		require.Equal(t, text, proto, name)
		require.True(t, hlo.IsModule(data[:hlo.HeadBytes]))
		require.True(t, hlo.IsModule(files[stem+".hlo.pb"][:hlo.HeadBytes]))

		// An HloProto has the module as its first field.
		whole := files[stem+".hlo.pb"]
		wrapped := append([]byte{0x0a}, varint(len(whole))...)
		wrapped = append(append(wrapped, whole...), 0x1a, 0)
		require.True(t, hlo.IsModule(wrapped[:hlo.HeadBytes]))
		inner, err := hlo.Read(wrapped)
		require.NoError(t, err, name)
		inner.Partitions = text.Partitions
		require.Equal(t, text, inner, name)

		// Every line with " = " is an instruction.
		lines := 0
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, "  ") && strings.Contains(line, " = ") {
				lines++
			}
		}
		require.Equal(t, lines, text.Instructions(), name)
	}
	require.GreaterOrEqual(t, n, 10)
}

func varint(n int) (out []byte) {
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// TestForms reads texts that people write by hand, as XLA's parser does: comments in front, no ENTRY, and metadata with
// commas.
func TestForms(t *testing.T) {
	text := strings.Repeat("// a comment\n", 100) + `HloModule m
first {
  ROOT a = f32[] parameter(0)
}
last {
  ROOT b = f32[] parameter(0), metadata={op_name="x", source_file="f.py", source_line=3}
}`
	require.True(t, hlo.IsModule([]byte(text)))
	m, err := hlo.Read([]byte(text))
	require.NoError(t, err)
	entry := m.Computations[m.Entry]
	require.Equal(t, "last", entry.Name)
	require.Equal(t, []any{"x", "f.py", int64(3)},
		[]any{entry.Instructions[0].OpName, entry.Instructions[0].File, entry.Instructions[0].Line})
}

// TestText reads all that the samples do not have.
func TestText(t *testing.T) {
	m, err := hlo.ReadText([]byte(`// dumped
HloModule jit_f.1, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias), {1, 2}: (3, {1}, must-alias) },
  entry_computation_layout={(f32[2]{0}, /*index=1*/s32[])->(f32[2]{0})}, replica_count=2, num_partitions=4,
  frontend_attributes={a="x,}"}

cond.1 {
  p = (s32[], f32[2]{0:T(128)S(1)}) parameter(0)
  ROOT %lt = pred[] custom-call(), custom_call_target="m\"x\\"
}, execution_thread="main"

%body (p: (s32[], f32[2])) -> (s32[], f32[2]) {
  %p = (s32[], f32[2]{0}) parameter(0), sharding={{replicated}, {devices=[2,1]<=[2]}}
  ROOT %r = (s32[], f32[2]{0}) copy((s32[], f32[2]{0}) %p)
}

ENTRY %main (a: f32[2], b: s32[]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  %k = f32[2,2]{1,0} constant({ { 1, 2 },
     { 3, -inf } })
  %t = token[] after-all()
  %d = s4[<=4,3]{1,0:E(4)} opaque-thing(f32[2]{0} %a, token[] %t), new_attribute={[1x2]->(3),"}"}
  %w = (s32[], f32[2]{0}) while(%t), condition=%cond.1, body=%body, backend_config={"known_trip_count":{"n":"12"}}
  %v = (s32[], f32[2]{0}) while(%t), body=%body, condition=%cond.1, backend_config="{\"known_trip_count\":{\"n\":\"7\"}}"
  %f = (f32[2], f32[2]) fusion(a), kind=kLoop, calls=body, output_to_operand_aliasing={{0}: (0, {}), {1}: (0, {1})}
  %c = f32[2] conditional(a, a, a), branch_computations={%body, cond.1}
  ROOT %dot.1 = f32[2]{0} dot(%a, %a), lhs_contracting_dims={0,1}, metadata={op_type="dot" ` +
		`op_name="jit(f)/transpose(jvp(g))/dot\"" source_file="/src/m.py" source_line=7 profile_type={1} deduplicated_name="x"}
}
`))
	require.NoError(t, err)
	require.Equal(t, "jit_f.1", m.Name)
	require.True(t, m.Scheduled)
	require.EqualValues(t, []int64{2, 4}, []int64{m.Replicas, m.Partitions})
	require.Equal(t, []hlo.Alias{{Output: []int64{0}}, {Output: []int64{1, 2}, Parameter: 3, Index: []int64{1}}},
		m.Aliases)
	require.Equal(t, "main", m.Computations[m.Entry].Name)
	at := map[string]*hlo.Instruction{}
	for _, c := range m.Computations {
		for i := range c.Instructions {
			at[c.Name+"/"+c.Instructions[i].Name] = &c.Instructions[i]
		}
	}
	require.Equal(t, `m"x\`, at["cond.1/lt"].Target)
	require.Equal(t, "{{replicated}, {devices=[2,1]<=[2]}}", at["body/p"].Sharding)
	require.EqualValues(t, 1, at["cond.1/p"].Shape.Tuple[1].Space)
	require.Equal(t, hlo.Shape{Type: "s4", Dims: []int64{4, 3}, Dynamic: []bool{true, false}, Layout: []int64{1, 0},
		Bits: 4}, at["main/d"].Shape)
	require.Equal(t, "s4[<=4,3]", at["main/d"].Shape.String())
	require.Equal(t, []int32{0, 2}, at["main/d"].Operands)
	for name, trips := range map[string]int64{"main/w": 12, "main/v": 7} {
		require.Equal(t, trips, at[name].TripCount)
		require.Equal(t, []string{"cond.1", "body"}, names(m, at[name].Called), "the condition is first")
	}
	require.Equal(t, []hlo.OperandAlias{{Output: []int64{0}}, {Output: []int64{1}, Index: []int64{1}}},
		at["main/f"].InPlace)
	require.Equal(t, []string{"body", "cond.1"}, names(m, at["main/c"].Called))
	dot := at["main/dot.1"]
	require.Equal(t, []any{`jit(f)/transpose(jvp(g))/dot"`, "/src/m.py", int64(7), []int64{0, 1}},
		[]any{dot.OpName, dot.File, dot.Line, dot.Contracting})
	require.Equal(t, "jvp(g)/x", xla.Label(&hlo.Instruction{Name: "n", OpName: "jit(f)/jvp(g)/x"}))
	require.Empty(t, xla.Label(&hlo.Instruction{Name: "n", File: "/src/m.py", Line: 3}))
}

func names(m *hlo.Module, called []int32) (out []string) {
	for _, k := range called {
		out = append(out, m.Computations[k].Name)
	}
	return out
}

// TestHalves reads the marks of JAX's transformations.
func TestHalves(t *testing.T) {
	for path, want := range map[string]hlo.Half{
		"": hlo.Forward, "jit(f)/add": hlo.Forward, "jit(f)/jvp(Net)/dot": hlo.Forward,
		"jit(f)/transpose(jvp(Net))/dot":                                          hlo.Backward,
		"jit(f)/transpose(jvp(checkpoint))/rematted_computation/dot":              hlo.Recomputed,
		"jit(f)/transpose(jvp())/while/body/checkpoint/rematted_computation/tanh": hlo.Recomputed,
		"jit(f)/transpose": hlo.Forward, // of an array
	} {
		require.Equal(t, want, hlo.HalfOf(path), path)
	}
}

// TestFaults: faults of a text end in errors that name the line and the place.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "is no HLO text"},
		{"HloModule m", "has no entry"},
		{"HloModule m\nENTRY e {\n}", "no instructions"},
		{"HloModule m\nENTRY e {\n a = f33[2] parameter(0)\n}", `line 3: computation "e": instruction "a": type "f33" is`},
		{"HloModule m\nENTRY e {\n a = f32[?] parameter(0)\n}", "has no size"},
		{"HloModule m\nENTRY e {\n a = f32[-2] parameter(0)\n}", "a dim is -2"},
		{"HloModule m\nENTRY e {\n a = f32[2]{0,1} parameter(0)\n}", "is not of 1 dims"},
		{"HloModule m\nENTRY e {\n a = f32[2] negate(b)\n}", `operand "b" is not defined before it`},
		{"HloModule m\nENTRY e {\n a = f32[2] parameter(0)\n a = f32[2] parameter(1)\n}", `two instructions "a"`},
		{"HloModule m\nENTRY e {\n a = f32[2] call(), to_apply=x\n}", `calls "x", which is not there`},
		{"HloModule m\nENTRY e {\n a = f32[2] call(), to_apply=e\n}", `computation "e" calls itself`},
		{"HloModule m\nf {\n a = f32[2] call(), to_apply=e\n}\nENTRY e {\n a = f32[2] call(), to_apply=f\n}",
			"calls itself"},
		{"HloModule m\nENTRY e {\n a = f32[2] parameter(0)\n}\nENTRY f {\n}", "two ENTRY"},
		{"HloModule m\ne {\n a = f32[2] parameter(0)\n}\ne {\n}", `two computations "e"`},
		{"HloModule m\ne {\n a = f32[2] parameter(0)\n}\nHloModule n", "a second module begins"},
		{"HloModule m\nENTRY e {\n a = f32[2] parameter(0)", "found the end of the file"},
		{"HloModule m\nENTRY e {\n a = " + strings.Repeat("(", 200), "deeper than 100"},
		{"HloModule m, a=" + strings.Repeat("{", 200), "deeper than 100"},
		{"HloModule m, a={(}", `found '}', wanted ')'`},
		{"HloModule m, a=\"x", "a string has no end"},
		{"HloModule m\nENTRY e {\n a = f32[] constant(1", "wanted ')'"},
	} {
		_, err := hlo.Read([]byte(c.text))
		require.ErrorContains(t, err, c.want, c.text)
	}
}

// TestFirstBytes: the kind of a file is told by its contents.
func TestFirstBytes(t *testing.T) {
	for text, want := range map[string]bool{
		"HloModule x": true, "\n// c\n/* d */ HloModule x\n": true, "HloModules": false, "HloModule": false, "": false,
		"\n{\"schema\":\"memopt.plan/v1\"}": false, "\n\n": false, "\n": false, "\x08\x08\x12\x07pytorch": false,
		"\n\x05jit_f\x12\x04main": true, "\n\x0c\n\x05jit_f\x12\x03mai": true, "\n\x05jit_f\x22\x04main": false,
		"\n\x05j\"t_f\x12\x04main": false,
	} {
		require.Equal(t, want, hlo.IsModule([]byte(text)), "%q", text)
	}
}

// FuzzRead: any bytes give a module whose memory can be found, or errors.
func FuzzRead(f *testing.F) {
	for name, data := range samples(f) {
		const largest = 30_000 // larger seeds slow the mutations down
		if strings.Contains(name, ".hlo") && len(data) < largest {
			f.Add(data)
		}
	}
	f.Add([]byte("HloModule m\nENTRY e {\n a = (f32[4],s32[]) parameter(0)\n" +
		" b = s32[] get-tuple-element(a), index=1\n}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := hlo.Read(data)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		p, err := xla.Run(m)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, p.LiveBytes(), p.ArgumentBytes)
		require.True(t, !p.Packed || p.ArenaBytes >= p.HeapBytes)
		g, err := p.Graph()
		require.NoError(t, err)
		require.NotNil(t, g)
	})
}
