package ort

import (
	"fmt"
	"strings"
)

// Level is how much the runtime may change a graph before running it (GraphOptimizationLevel).
type Level string

// The levels, from no optimization to the runtime's default.
const (
	Disable  Level = "disable"
	Basic    Level = "basic"
	Extended Level = "extended"
	All      Level = "all"
)

// levels are the values of GraphOptimizationLevel.
var levels = map[Level]uintptr{Disable: 0, Basic: 1, Extended: 2, All: 99, "": 99}

// ParseLevel reads a level.
func ParseLevel(text string) (Level, error) {
	l := Level(text)
	if _, ok := levels[l]; !ok || text == "" {
		return "", fmt.Errorf("%q: wanted disable, basic, extended or all", text)
	}
	return l, nil
}

// Options of a session. The zero value is the runtime's own defaults.
type Options struct {
	Optimization Level `json:"optimization,omitempty"` // "" means All
	Threads      int   `json:"threads,omitempty"`      // within an operator; 0 is the runtime's choice, one per core
	InterOp      int   `json:"inter_op,omitempty"`     // between operators, if Parallel; 0 is the runtime's choice
	Parallel     bool  `json:"parallel,omitempty"`     // operators run side by side
	// Every value is allocated on its own in all runs (enable_mem_pattern = False).
	NoPattern bool `json:"no_pattern,omitempty"`
	NoArena   bool `json:"no_arena,omitempty"` // values come from malloc, and are not counted
	// MemLimit is the most bytes that the arena may take; 0 means no limit.
	MemLimit int64 `json:"mem_limit,omitempty"`
	// Exact makes the arena grow by the requested size (kSameAsRequested), not by powers of two.
	Exact bool `json:"exact,omitempty"`
	// Split makes the arena give every value just the bytes that it needs, in multiples of 256. By
	// default the arena hands out a free chunk of up to twice the size asked for as a whole, and
	// counts all of it as in use.
	Split bool `json:"split,omitempty"`
	// Shared makes sessions of one process share one arena.
	Shared bool `json:"shared,omitempty"`
	// Config holds session configuration entries as KEY=VALUE.
	Config []string `json:"config,omitempty"`
}

// Check returns an error for invalid options.
func (o *Options) Check() error {
	if _, ok := levels[o.Optimization]; !ok {
		return fmt.Errorf("optimization level %q: wanted disable, basic, extended or all", o.Optimization)
	}
	if o.Threads < 0 || o.InterOp < 0 || o.MemLimit < 0 {
		return fmt.Errorf("threads %d, inter-op threads %d, memory limit %d: none may be negative",
			o.Threads, o.InterOp, o.MemLimit)
	}
	if (o.MemLimit > 0 || o.Exact || o.Split) && o.NoArena {
		return fmt.Errorf("a memory limit and an extend strategy apply to the arena, which is off")
	}
	for _, c := range o.Config {
		if key, _, ok := strings.Cut(c, "="); !ok || key == "" || strings.ContainsRune(c, 0) {
			return fmt.Errorf("session configuration entry %q: wanted KEY=VALUE, for example "+
				"session.intra_op.allow_spinning=0", c)
		}
	}
	return nil
}

// ownArena reports whether the arena is to have other bounds than the runtime's own, or is shared.
func (o *Options) ownArena() bool {
	return !o.NoArena && (o.MemLimit > 0 || o.Exact || o.Split || o.Shared)
}

// Stats are the counts of the session's arena, in bytes.
type Stats struct {
	InUse    int64 `json:"in_use"`
	MaxInUse int64 `json:"max_in_use"` // the most since the session was made
	Total    int64 `json:"total"`      // taken from the system
	Known    bool  `json:"known"`      // false without an arena
}
