package configs

import (
	"strconv"
	"strings"

	"memopt/planner"
)

// The variables of ORTModule that memopt honours.
const (
	LevelVariable  = "ORTMODULE_MEMORY_OPT_LEVEL"
	ConfigVariable = "ORTMODULE_MEMORY_OPT_CONFIG"
)

// ParseLevel reads a level as Python's int() reads ORTMODULE_MEMORY_OPT_LEVEL: blanks around it,
// a sign and underscores between digits are allowed.
func ParseLevel(text, where string) (planner.Level, error) {
	trimmed := strings.TrimSpace(text)
	digits := strings.TrimLeft(trimmed, "+-")
	plain := len(digits) > 0 && digits[0] != '_' && digits[len(digits)-1] != '_' && !strings.Contains(digits, "__")
	n, err := strconv.ParseInt(strings.ReplaceAll(trimmed, "_", ""), 10, 32)
	if err != nil || !plain {
		return 0, faultf(where, "%q is not an integer; wanted 0, 1 or 2", text)
	}
	if level := planner.Level(n); level.Valid() {
		return level, nil
	}
	return 0, faultf(where,
		"level %d does not exist; wanted 0 (user configuration), 1 (layerwise recompute) or 2 (with compromise)", n)
}
