package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memopt/configs"
)

// pickPlan puts a plan in the place of a folder that --plan names, such as plan --plans writes it: the first, by name,
// that is for the sizes of --dim.
func (a *App) pickPlan(cmd *cobra.Command) error {
	folder := flagValue(cmd, "plan")
	if info, err := os.Stat(folder); folder == "" || err != nil || !info.IsDir() {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(escapeGlob(folder), "*.json"))
	if err != nil || len(files) == 0 {
		return Usage("--plan %s: is a folder without plans: wanted a plan.json, or a folder of --save-plan", folder)
	}
	dims, _, err := ParseDims(a.Global.Dims)
	if err != nil {
		return err
	}
	var known []string
	for _, file := range files {
		if err := a.Reads("--plan", file); err != nil {
			return err
		}
		record, err := configs.LoadPlan(file)
		if err != nil {
			return Usage("--plan %s: %w", folder, err)
		}
		ranges := record.Ranges
		if len(ranges) == 0 {
			return Usage("--plan %s: %s is not for a range of sizes: name one of the plans", folder,
				filepath.Base(file))
		}
		if within(dims, ranges) {
			return cmd.Flags().Set("plan", file)
		}
		known = append(known, rangesText(ranges))
	}
	return Usage("--plan %s: no plan in it is for --dim %s; they are for %s", folder,
		strings.Join(a.Global.Dims, ","), strings.Join(known, "; "))
}

// within tells whether all symbols of ranges have sizes in them.
func within(dims map[string]int64, ranges map[string][2]int64) bool {
	for symbol, r := range ranges {
		if n, ok := dims[symbol]; !ok || n < r[0] || n > r[1] {
			return false
		}
	}
	return true
}

func rangesText(ranges map[string][2]int64) string {
	var parts []string
	for _, symbol := range slices.Sorted(maps.Keys(ranges)) {
		parts = append(parts, fmt.Sprintf("%s=%d..%d", symbol, ranges[symbol][0], ranges[symbol][1]))
	}
	return strings.Join(parts, ",")
}

// escapeGlob is a path as a pattern that matches it alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
