package xla_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// TestFusions counts by hand the values that are stored of modules from before XLA's optimizations. Each begins with a
// product b of the argument a.
func TestFusions(t *testing.T) {
	for _, c := range []struct {
		name, text string
		heap       int64
	}{
		{"a chain with one reader is not stored", `
  c = @ negate(b)
  d = @ exponential(c)
  ROOT r = f32[] reduce(d, a)`, kib},
		{"a cheap value is computed in each reader", `
  c = @ negate(b)
  d = f32[1]{0} reduce(c)
  e = @ dot(d, a)
  f = @ add(c, e)
  ROOT r = f32[] reduce(f)`, 2 * kib},
		{"an expensive one is stored", `
  c = @ exponential(b)
  d = f32[1]{0} reduce(c)
  k = @ dot(a, a)
  e = @ dot(d, k)
  ROOT r = f32[] reduce(e, c)`, 3 * kib},
		{"so is one of two values", `
  k = @ dot(a, a)
  c = @ add(b, k)
  d = f32[1]{0} reduce(c)
  e = @ dot(d, a)
  ROOT r = f32[] reduce(e, c)`, 2 * kib},
		{"a broadcast is stored for a product alone", `
  c = @ broadcast(b)
  d = @ dot(c, c)
  ROOT r = f32[] reduce(d)`, 2 * kib},
		{"a transposition before a product is not stored", `
  c = @ transpose(b)
  d = @ dot(c, a)
  ROOT r = f32[] reduce(d)`, 2 * kib},
		{"a reshape is its operand", `
  c = f32[16,16]{1,0} reshape(b)
  d = @ dot(c, c)
  ROOT r = f32[] reduce(d, b)`, 2 * kib},
		{"a reshape of a fused value is stored once", `
  c = @ negate(b)
  d = f32[16,16]{1,0} reshape(c)
  e = @ dot(d, d)
  ROOT r = f32[] reduce(e)`, 2 * kib},
		{"a fusion writes over a value that it reads at the same place", `
  c = @ negate(b)
  d = @ abs(c)
  e = @ dot(d, d)
  ROOT r = f32[] reduce(e)`, 2 * kib},
		{"and not over one that it reads elsewhere", `
  c = @ reverse(b)
  d = @ abs(c)
  k = @ dot(a, a)
  e = @ dot(d, k)
  ROOT r = f32[] reduce(e, k)`, 3 * kib},
		{"an update is computed where it is written", `
  c = @ negate(b)
  z = f32[1024]{0} sort(a)
  u = f32[1024]{0} dynamic-update-slice(z, c, a)
  ROOT r = f32[] reduce(u)`, 5 * kib},
		{"the value that is updated is stored", `
  c = @ negate(b)
  u = @ dynamic-update-slice(c, b, a)
  ROOT r = f32[] reduce(u)`, 2 * kib},
		{"the result is stored", `
  c = @ negate(b)
  ROOT r = @ abs(c)`, 0},
		{"a copy to another memory is stored", `
  c = f32[256]{0:S(1)} copy(b)
  ROOT r = f32[] reduce(c)`, 2 * kib},
	} {
		p := early(t, "\nENTRY e {\n  a = @ parameter(0)\n  b = @ dot(a, a)"+c.text+"\n}")
		require.Equal(t, c.heap, p.HeapBytes, c.name)
	}
}

// TestInlined: a fusion crosses calls, each with values of its own.
func TestInlined(t *testing.T) {
	p := early(t, `
g {
  y = @ parameter(0)
  ROOT z = @ abs(y)
}
f {
  k = @ parameter(1)
  x = @ parameter(0)
  n = @ negate(x)
  m = @ call(n), to_apply=g
  ROOT o = @ add(m, k)
}
ENTRY e {
  a = @ parameter(0)
  b = @ dot(a, a)
  c = @ call(b, a), to_apply=f
  d = @ call(c, b), to_apply=f
  ROOT r = f32[] reduce(d)
}`)
	require.EqualValues(t, kib, p.HeapBytes)
	require.Equal(t, 12, p.Read.Instructions(), "the module as it was read")
}

// TestManyLeaves: a kernel reads at most 96 values; each counts once.
func TestManyLeaves(t *testing.T) {
	for n, stored := range map[int]int64{60: 0, 96: 0, 97: 1} {
		var b strings.Builder
		b.WriteString("\nENTRY e {\n  a = @ parameter(0)\n")
		for i := range n {
			fmt.Fprintf(&b, "  b%d = @ dot(a, a)\n", i)
		}
		sum := "b0"
		reads := n - 1
		if n == 60 {
			reads = 2 * (n - 1) // all but the first twice
		}
		for i := range reads {
			fmt.Fprintf(&b, "  c%d = @ concatenate(%s, b%d)\n", i, sum, 1+i%(n-1))
			sum = fmt.Sprintf("c%d", i)
		}
		fmt.Fprintf(&b, "  ROOT r = f32[] reduce(%s)\n}", sum)
		require.Equal(t, (int64(n)+stored)*kib, early(t, b.String()).HeapBytes, n)
	}
}

// TestFusionsAgainstDefinition compares programs of products and of loops that move elements, which write over no
// operand, with a second count: a value is stored unless all of its readers are loops or sums and it has one reader or
// one operand; a stored value lives to the last stored reader that reaches it through values that are not stored.
func TestFusionsAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 14).Draw(t, "values")
		ops, operands := make([]string, n), make([][]int, n)
		var b strings.Builder
		b.WriteString("\nENTRY e {\n  v0 = @ parameter(0)\n")
		for i := 1; i < n; i++ {
			ops[i] = rapid.SampledFrom([]string{"dot", "reverse", "concatenate", "slice"}).Draw(t, "op")
			for range map[string]int{"dot": 2, "concatenate": 2, "reverse": 1, "slice": 1}[ops[i]] {
				operands[i] = append(operands[i], rapid.IntRange(0, i-1).Draw(t, "operand"))
			}
			var names []string
			for _, o := range operands[i] {
				names = append(names, fmt.Sprintf("v%d", o))
			}
			fmt.Fprintf(&b, "  v%d = @ %s(%s)\n", i, ops[i], strings.Join(names, ", "))
		}
		fmt.Fprintf(&b, "  ROOT r = f32[] reduce(v%d)\n}", n-1)

		readers := func(i int) (out []int) {
			for j := i + 1; j < n; j++ {
				for _, o := range operands[j] {
					if o == i && (len(out) == 0 || out[len(out)-1] != j) {
						out = append(out, j)
					}
				}
			}
			return out
		}
		stored := func(i int) bool {
			list := readers(i)
			if ops[i] == "dot" || len(list) == 0 && i < n-1 {
				return true
			}
			for _, j := range list {
				if ops[j] == "dot" {
					return true
				}
			}
			if i == n-1 {
				list = append(list, n) // the sum
			}
			return len(list) > 1 && len(operands[i]) > 1
		}
		var last func(i int) int
		last = func(i int) int {
			at := i
			if i == n-1 {
				at = n
			}
			for _, j := range readers(i) {
				at = max(at, j)
				if !stored(j) {
					at = max(at, last(j))
				}
			}
			return at
		}
		most := 0
		for at := 1; at <= n; at++ {
			live := 0
			for i := 1; i <= min(at, n-1); i++ {
				if stored(i) && last(i) >= at {
					live++
				}
			}
			most = max(most, live)
		}
		p := early(t, b.String())
		if want := int64(most) * kib; p.HeapBytes != want {
			t.Fatalf("%s\ntakes %d bytes, wanted %d", b.String(), p.HeapBytes, want)
		}
	})
}
