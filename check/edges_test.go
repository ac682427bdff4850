package check_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/check"
)

// TestCutOfTwoOutputs: a node whose outputs are both needed behind the moment is computed once for both.
func TestCutOfTwoOutputs(t *testing.T) {
	in := `{"version": 2, "cost_unit": "us", "nodes": [
		{"id": "a", "cost": 8, "outputs": [{"id": "a0", "size": 10}, {"id": "a1", "size": 10}]},
		{"id": "t", "cost": 1, "inputs": [], "size": 30},
		{"id": "b", "cost": 1, "inputs": ["a0", "t"], "size": 1},
		{"id": "c", "cost": 1, "inputs": ["a1", "b"], "size": 1}]}`
	p := `{"steps": [{"compute": "t"}, {"compute": "a"}, {"compute": "b"}, {"compute": "c"}], "peak": 52, "cost": 11,
		"cost_lower_bound": 11, "certificate": {"moment": "t", "price": 10, "budget_bytes": 52, "order": "ORDER"}}`
	for order, proved := range map[string]float64{"any": 0, "given": 0} {
		r, err := check.Answer(strings.NewReader(strings.Replace(p, "ORDER", order, 1)), strings.NewReader(in))
		require.NoError(t, err)
		require.Equal(t, proved, *r.BoundProved, order)
	}
	given := strings.Replace(in, `"version": 2,`, `"version": 2, "order": "given",`, 1)
	p = `{"steps": [{"compute": "a"}, {"free": "a0"}, {"free": "a1"}, {"compute": "t"}, {"compute": "a"},
		{"compute": "b"}, {"free": "t"}, {"compute": "c"}], "peak": 51, "cost": 19, "cost_lower_bound": 11,
		"certificate": {"moment": "t", "price": 10, "budget_bytes": 51, "order": "given"}}`
	// With all bytes free but 30 no value need be held: the cut of 8 is less than the price of 21 free bytes.
	r, err := check.Answer(strings.NewReader(p), strings.NewReader(given))
	require.NoError(t, err)
	require.Empty(t, r.Faults)
	require.Zero(t, *r.BoundProved)

	// A budget that leaves no byte free beside t: the cut is one run of a, for both of its outputs.
	tight := strings.Replace(given, `"inputs": [], "size": 30`, `"inputs": [], "size": 30, "workspace": 21`, 1)
	r, err = check.Answer(strings.NewReader(p), strings.NewReader(tight))
	require.NoError(t, err)
	require.Empty(t, r.Faults)
	require.InDelta(t, 8.0/11, *r.BoundProved, 1e-12)
}

// TestInstancesRefused: each fault of an instance is an error.
func TestInstancesRefused(t *testing.T) {
	for _, c := range []struct{ instance, says string }{
		{`{"format": "other", "version": 2, "nodes": []}`, "wanted nodes"},
		{`{"format": "memopt-instance", "version": 3, "nodes": []}`, "wanted nodes"},
		{`{"version": 2}`, "wanted nodes"},
		{`{"version": 2, "live": [{"id": "w", "size": -1}], "nodes": []}`, "bytes"},
		{`{"version": 2, "live": [{"id": "w", "size": 1}, {"id": "w", "size": 1}], "nodes": []}`, "of its own"},
		{`{"version": 2, "nodes": [{"id": "a", "cost": 1, "size": 0.5}]}`, "bytes"},
		{`{"version": 2, "nodes": [{"id": "a", "cost": 1, "size": 9007199254740993}]}`, ""},
		{`{"version": 2, "nodes": [{"id": "a", "cost": 1, "size": 9e15}, {"id": "b", "cost": 1, "size": 9e15}]}`, "2^53"},
		{`{"version": 2, "nodes": [{"id": "a", "cost": -1, "size": 1}]}`, "a cost"},
		{`{"version": 2, "nodes": [{"id": "a", "cost": 1, "size": 1}, {"id": "a", "cost": 1, "size": 1}]}`, "of its own"},
		{`{"version": 2, "nodes": [{"id": "a", "cost": 1, "size": 1, "workspace": -1}]}`, "workspace"},
		{`{"version": 2, "nodes": [{"id": "a", "cost": 1, "size": 1, "inputs": ["b"]}]}`, "no value before it"},
		{`{"version": 2, "nodes": [{"id": "a", "cost": 1, "size": 1}, {"id": "v", "alias": "a", "inputs": []}]}`, "alias"},
		{`{"nodes": [{"id": 7, "cost": 1, "size": 1}, {"id": "7", "cost": 1, "size": 1}]}`, ""}, // two names
		{`{"version": 2, "nodes": [{"id": 7, "cost": 1, "size": 1}, {"id": "7", "cost": 1, "size": 1}]}`, "of its own"},
	} {
		_, err := check.Answer(strings.NewReader(`{"steps": []}`), strings.NewReader(c.instance))
		if c.says == "" {
			require.NoError(t, err, c.instance)
		} else {
			require.ErrorContains(t, err, c.says, c.instance)
		}
	}
}
