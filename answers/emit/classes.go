package emit

import (
	"cmp"
	"slices"
)

// candidate is a part of a region that a setting may keep, for example an operator or a module.
type candidate struct {
	name    string
	seconds float64 // that its recomputation takes
	bytes   int64   // of its results
}

// worth is the time that a candidate saves for a byte.
func (c *candidate) worth() float64 { return c.seconds / float64(max(c.bytes, 1)) }

// sibling is a candidate by its region.
type sibling struct{ region, item int }

// classesOf groups the candidates at equal places of regions whose candidates have the same names, in classes that save
// most time for a byte first.
func classesOf(regions [][]candidate) (classes [][]sibling) {
	at := map[string]int{}
	for i, list := range regions {
		key := ""
		for k := range list {
			key += list[k].name + " "
		}
		first, ok := at[key]
		if !ok {
			first = len(classes)
			at[key] = first
			classes = append(classes, make([][]sibling, len(list))...)
		}
		for k := range list {
			classes[first+k] = append(classes[first+k], sibling{i, k})
		}
	}
	worth := func(class []sibling) float64 { return regions[class[0].region][class[0].item].worth() }
	slices.SortStableFunc(classes, func(a, b []sibling) int { return cmp.Compare(worth(b), worth(a)) })
	return classes
}
