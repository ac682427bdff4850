package recompute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// NodeOrder is an order of execution, as indices of the file's nodes. In JSON, three and more indices
// that follow each other are a text: [4, "0-3", 5, 6] is 4, 0, 1, 2, 3, 5, 6. A list of numbers alone is
// read as well.
type NodeOrder []int32

// shortestRun is the length of the shortest run of indices that is written as a text.
const shortestRun = 3

// longestOrder bounds the number of nodes that the runs of a file may stand for.
const longestOrder = 1 << 24

// MarshalJSON writes runs.
func (o NodeOrder) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	b := []byte{'['}
	for at := 0; at < len(o); {
		end := at + 1
		for end < len(o) && o[end] == o[end-1]+1 {
			end++
		}
		if end-at < shortestRun {
			end = at + 1
		}
		if at > 0 {
			b = append(b, ',')
		}
		if end-at == 1 {
			b = strconv.AppendInt(b, int64(o[at]), 10)
		} else {
			b = fmt.Appendf(b, `"%d-%d"`, o[at], o[end-1])
		}
		at = end
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads numbers and runs.
func (o *NodeOrder) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var list []any
	if err := d.Decode(&list); err != nil {
		return fmt.Errorf("order: %w", errors.New("wanted a list of nodes' indices and of runs such as \"0-412\""))
	}
	if list == nil {
		*o = nil
		return nil
	}
	*o = make(NodeOrder, 0, len(list))
	for i, e := range list {
		if err := o.add(e); err != nil {
			return fmt.Errorf("order[%d] is %.40v: %w", i, e, err)
		}
	}
	return nil
}

// add appends an element of the list.
func (o *NodeOrder) add(e any) error {
	first, last := "", ""
	switch e := e.(type) {
	case json.Number:
		first, last = e.String(), e.String()
	case string:
		first, last, _ = strings.Cut(e, "-")
	}
	from, errFrom := strconv.ParseInt(first, 10, 32)
	to, errTo := strconv.ParseInt(last, 10, 32)
	switch {
	case errFrom != nil || errTo != nil || from > to:
		return errors.New("wanted the index of a node, or a run such as \"0-412\"")
	case to-from >= longestOrder-int64(len(*o)):
		return fmt.Errorf("an order of more than %d nodes is not read", longestOrder)
	}
	for n := from; n <= to; n++ {
		*o = append(*o, int32(n))
	}
	return nil
}
