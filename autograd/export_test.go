package autograd

import (
	"maps"
	"slices"
)

// ATenFunctions lists the functions of PyTorch that have a row.
func ATenFunctions() []string { return slices.Sorted(maps.Keys(atenTable)) }

// FusedForms lists the patterns of the table: names and texts.
func FusedForms() (forms [][2]string) {
	for _, row := range fusedRows {
		forms = append(forms, [2]string{row.name, row.form})
	}
	return forms
}
