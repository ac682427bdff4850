package op

import (
	"cmp"
	"slices"
	"strings"
)

// Named returns the rows of the operators with a name, in any domain and any case;
// "" means all of them. They are sorted by domain and name, definitions before dialects.
func Named(name string) []*Info {
	var rows []*Info
	for k := Unknown + 1; k < NumKinds; k++ {
		if name == "" || strings.EqualFold(table[k].Name, name) {
			rows = append(rows, &table[k])
		}
	}
	slices.SortFunc(rows, func(a, b *Info) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Dialect, b.Dialect))
	})
	return rows
}
