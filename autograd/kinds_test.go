package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
)

// TestFewerBits: an optimizer with states has those of its rule whose states take fewer bits, the most bits first.
func TestFewerBits(t *testing.T) {
	for kind, want := range map[string][]string{"adamw": {"adamw8bit", "adamw4bit"}, "adam": {"adam8bit", "adam4bit"},
		"adam8bit": {"adam4bit"}, "adamw4bit": nil, "lion": nil, "sgd": nil} {
		require.Equal(t, want, (&autograd.Optimizer{Kind: kind}).FewerBits(), kind)
	}
}
