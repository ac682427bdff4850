package resident

import "memopt/executor"

// ArenaStats returns what the arena of a machine on a device of memopt's holds.
func ArenaStats(m Machine) executor.ArenaStats { return m.(*machine).opts.Arena.Stats() }
