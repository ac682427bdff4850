package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/symbolic"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 1 << 20: "1.00 MiB",
		1<<20 - 1: "1.00 MiB",
		5 << 30:   "5.00 GiB", 1 << 40: "1.00 TiB", math.MaxInt64: "8.00 EiB", -1536: "-1.50 KiB",
	} {
		assert.Equal(t, want, Bytes(n), "%d", n)
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "16GiB": 16 << 30, "16Gi": 16 << 30, "16G": 16 << 30, "16GB": 16e9, "1.5KiB": 1536,
		"2 MiB": 2 << 20, "3K": 3072, "7B": 7, "1TB": 1e12,
		"9223372036854775807": math.MaxInt64, "24gb": 24e9, "24g": 24 << 30, "1.5kIb": 1536, "2M": 2 << 20,
		"5t": 5 << 40, "1e3": 1000, "8b": 8, "3ki": 3072, "4tb": 4e12,
	} {
		got, err := ParseBytes(text)
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, got, text)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "-1GiB", "1XB", "1e30GiB", "nan", "inf", "16 Gibi",
		"9223372036854775808", "80%", "0.5", "1.5B"} {
		_, err := ParseBytes(text)
		assert.Error(t, err, text)
	}
}

func TestBareNumber(t *testing.T) {
	for text, want := range map[string]bool{"24": true, " 7 ": true, "1.5": true, "2.": true, "24g": false,
		"24B": false, "": false, "1e3": true} {
		assert.Equal(t, want, BareNumber(text), text)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000",
		math.MinInt64: "-9,223,372,036,854,775,808"} {
		assert.Equal(t, want, Thousands(n))
	}
}

// TestSizeUnit: a column has one unit, of which its largest size has ten or more.
func TestSizeUnit(t *testing.T) {
	for _, c := range []struct {
		sizes []int64
		unit  string
		want  string // of all, in the unit
	}{
		{nil, "B", ""}, {[]int64{0}, "B", "0"}, {[]int64{10239, -7}, "B", "10,239 -7"},
		{[]int64{10240, 1, 0, 512}, "KiB", "10.00 <0.01 0.00 0.50"},
		{[]int64{2912190908, 1<<20 - 1, -1 << 20}, "MiB", "2,777.28 1.00 -1.00"},
		{[]int64{24 << 30, 5 << 20}, "GiB", "24.00 <0.01"}, {[]int64{math.MaxInt64}, "PiB", "8,192.00"},
		{[]int64{math.MinInt64, -1}, "PiB", "-8,192.00 <0.01"},
	} {
		unit, print := SizeUnit(c.sizes...)
		assert.Equal(t, c.unit, unit, "%v", c.sizes)
		var got []string
		for _, n := range c.sizes {
			got = append(got, print(n))
		}
		assert.Equal(t, c.want, strings.Join(got, " "), "%v", c.sizes)
	}
}

func TestTableForms(t *testing.T) {
	table := Table{Title: "Things", Header: []string{"name", "n"}, Right: []bool{false, true}}
	table.Add("a", "1")
	table.Add("b|c, \"d\"", "200")
	for _, c := range []struct {
		format Format
		want   string
	}{
		{TableFormat, "Things\nname        n\n--------  ---\na           1\nb|c, \"d\"  200\n"},
		{CSVFormat, "name,n\na,1\n\"b|c, \"\"d\"\"\",200\n"},
		{MarkdownFormat, "### Things\n\n| name | n |\n| --- | ---: |\n| a | 1 |\n| b\\|c, \"d\" | 200 |\n\n"},
	} {
		var b bytes.Buffer
		require.NoError(t, table.WriteAs(&b, c.format))
		assert.Equal(t, c.want, b.String())
	}
}

func TestRank(t *testing.T) {
	n := symbolic.Sym("n")
	assert.EqualValues(t, 12, rank(symbolic.Const(12), nil))
	assert.EqualValues(t, 5, rank(n, symbolic.Env{"n": 5}))
	assert.EqualValues(t, 4*rankHint, rank(n.Mul(symbolic.Const(4)), nil))
	assert.EqualValues(t, -1, rank(symbolic.Unknown(), nil))
}
