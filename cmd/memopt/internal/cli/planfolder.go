package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memopt/configs"
)

// FolderPlan is a plan file for sizes of a symbol from Lo to Hi.
type FolderPlan struct {
	Path, Symbol string
	Lo, Hi       int64
}

// pickPlan puts a plan in the place of a folder that --plan names, such as plan --plans writes it: the first, by name,
// that is for the sizes of --dim. Where the sizes of a job's batches differ, it takes all plans (App.Folder), and puts
// that of the largest sizes there.
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
	var list []FolderPlan
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
		for symbol, r := range ranges {
			list = append(list, FolderPlan{file, symbol, r[0], r[1]})
		}
	}
	if cmd.Name() == "train" {
		if _, bound := dims[list[0].Symbol]; !bound {
			return a.takeFolder(cmd, folder, list)
		}
	}
	return Usage("--plan %s: no plan in it is for --dim %s; they are for %s", folder,
		strings.Join(a.Global.Dims, ","), strings.Join(known, "; "))
}

// takeFolder takes all plans of a folder, which have to be for one symbol, and for all sizes between the smallest and
// the largest, each for other ones.
func (a *App) takeFolder(cmd *cobra.Command, folder string, list []FolderPlan) error {
	slices.SortFunc(list, func(x, y FolderPlan) int { return cmp.Compare(x.Lo, y.Lo) })
	for i, p := range list[1:] {
		before := list[i]
		if p.Symbol != before.Symbol {
			return Usage("--plan %s: has plans for sizes of %s and of %s: wanted those of one symbol", folder,
				before.Symbol, p.Symbol)
		}
		if p.Lo != before.Hi+1 {
			return Usage("--plan %s: has plans for %s=%d..%d and %d..%d: wanted a plan for each size between the "+
				"smallest and the largest, and no two for one", folder, p.Symbol, before.Lo, before.Hi, p.Lo, p.Hi)
		}
	}
	a.Folder = list
	return cmd.Flags().Set("plan", list[len(list)-1].Path)
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
