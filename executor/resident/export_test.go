package resident

import (
	"memopt/executor"
	"memopt/planner/arena"
)

// Limit returns the limit of a machine's arena that is just enough for an arena of n bytes.
func Limit(n int64) int64 { return arena.Align(n) }

// ArenaStats returns what the arena of a machine on a device of memopt's holds.
func ArenaStats(m Machine) executor.ArenaStats { return m.(*machine).opts.Arena.Stats() }
