package parts_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/estimate/parts"
	"memopt/graph/precision"
)

// TestPerParameter: what Adam's parameters cost in each precision, counted by hand: in float32 a
// weight, a gradient and two moments of 4 bytes; in mixed precision (Micikevicius and others, Mixed
// Precision Training, 2018) also a master weight, so that halving two of the four terms saves nothing.
func TestPerParameter(t *testing.T) {
	for _, c := range []struct {
		precision precision.Precision
		moments   int
		want      int64
		text      string
	}{
		{precision.FP32, 2, 16, "4 weight + 4 gradient + 8 moments = 16 bytes"},
		{precision.FP32, 0, 8, "4 weight + 4 gradient = 8 bytes"},
		{precision.BF16, 2, 16, "2 weight + 2 gradient + 4 master weight + 8 moments = 16 bytes"},
		{precision.FP16Mixed, 2, 16, "2 weight + 2 gradient + 4 master weight + 8 moments = 16 bytes"},
		{precision.BF16Pure, 2, 8, "2 weight + 2 gradient + 4 moments = 8 bytes"},
	} {
		p := parts.TypesOf(c.precision).PerParameter(c.moments)
		require.Equal(t, c.want, p.Total(), c.precision)
		require.Equal(t, c.text, p.String(), c.precision)
	}
}

func TestParsePrecision(t *testing.T) {
	for _, p := range append(precision.Precisions, precision.AsIs) {
		got, err := precision.Parse(string(p))
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	_, err := precision.Parse("int8")
	require.EqualError(t, err, `precision "int8": wanted one of fp32, bf16, bf16-pure, fp16-mixed`)
}

// TestParts: every field is in a row; those that are no shares add up to the total; Add adds all.
func TestParts(t *testing.T) {
	var p parts.Parts
	fields := reflect.ValueOf(&p).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetInt(1 << i)
	}
	var total, all int64
	for _, r := range p.Rows() {
		if all += r.Bytes; r.Share < 0 {
			total += r.Bytes
		} else {
			require.Negative(t, p.Rows()[r.Share].Share, r.Name)
		}
	}
	require.Equal(t, p.Total(), total)
	require.Equal(t, int64(1)<<fields.NumField()-1, all)
	twice := p.Add(p)
	require.Equal(t, 2*p.Total(), twice.Total())
	doubled := reflect.ValueOf(twice)
	for i := range doubled.NumField() {
		require.Equal(t, int64(2)<<i, doubled.Field(i).Int(), doubled.Type().Field(i).Name)
	}
	sum := func(form any) (n int64) {
		for i := range reflect.ValueOf(form).NumField() {
			n += reflect.ValueOf(form).Field(i).Int()
		}
		return n
	}
	form := p.JSON()
	require.Equal(t, p.Total(), sum(form.Parts), "the parts add up")
	require.Equal(t, all, sum(form.Parts)+sum(form.Shares))
}
