package torch_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/sim/allocator"
	torchsim "memopt/sim/torch"
)

// TestEvents: whatever runs again, with workspaces, the blocks that are asked for are at their worst the peak of the
// simulation, and those that stay are the gradients, and the outputs that the program keeps.
func TestEvents(t *testing.T) {
	data, err := os.ReadFile("testdata/net.step.json")
	require.NoError(t, err)
	p, err := torchsim.ReadStep(bytes.NewReader(data))
	require.NoError(t, err)
	held := int64(0)
	for _, n := range p.HeldSizes() {
		held += n
	}
	require.Equal(t, p.Held, held)
	for i := range p.Steps {
		p.Steps[i].Work = int64(i%5) << 14
	}
	gradients := int64(0)
	for _, n := range p.GradientSizes() {
		gradients += n
	}
	require.Equal(t, p.Gradients().Bytes, gradients)
	s := p.Simulator()
	for first := range p.Tree.Calls {
		for second := range first {
			calls := []int32{int32(second), int32(first)}
			u := s.Run(calls)
			events, kept, end := s.Events(len(calls), 7)
			o := allocator.Replay(allocator.NewCaching(allocator.Conf{}, allocator.Memory{}), events)
			require.Equal(t, u.Peak, p.Held+o.Peak.Asked, calls)
			require.Equal(t, gradients+p.Outputs(), o.Last.Asked, calls)
			require.LessOrEqual(t, len(kept), int(end-7))
			require.Equal(t, int32(7), events[0].Block)
		}
	}
}
