package pack

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Table is a list of buffers as a CSV file has it.
type Table struct {
	Header  []string
	Rows    [][]string // as read, one per buffer
	IDs     []string
	Buffers []Buffer
	Offsets []int64 // nil if the file has no column of that name
}

// column names of google/minimalloc's files.
const (
	columnID        = "id"
	columnLower     = "lower"
	columnUpper     = "upper"
	columnSize      = "size"
	columnOffset    = "offset"
	columnAlignment = "alignment"
)

// ReadCSV reads the columns id, lower, upper and size in any order, as google/minimalloc writes
// them, and offset if it is there. Other columns are kept for WriteCSV, except that an alignment
// other than 1 is refused, since Buffer has none: sizes must be rounded up beforehand. Errors name
// the line.
func ReadCSV(r io.Reader) (*Table, error) {
	in := csv.NewReader(r)
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("pack: the file is empty: wanted a header with id, lower, upper " +
			"and size")
	}
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	t := &Table{Header: header}
	columns, err := t.columns()
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("pack: %w", err)
		}
		line, _ := in.FieldPos(0)
		id := row[columns[columnID]]
		if first, ok := seen[id]; ok {
			return nil, fmt.Errorf("pack: line %d: id %q is on line %d already", line, id, first)
		}
		seen[id] = line
		if err := t.add(row, columns, line); err != nil {
			return nil, err
		}
	}
}

// columns finds the named columns in the header.
func (t *Table) columns() (map[string]int, error) {
	columns := map[string]int{}
	for i, name := range t.Header {
		name = strings.TrimSpace(name)
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff") // a byte order mark
		}
		t.Header[i] = name
		if _, ok := columns[name]; ok {
			return nil, fmt.Errorf("pack: line 1: the column %q appears twice", name)
		}
		columns[name] = i
	}
	for _, name := range []string{columnID, columnLower, columnUpper, columnSize} {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("pack: line 1: no column %q in the header %q: wanted id, "+
				"lower, upper and size",
				name, strings.Join(t.Header, ","))
		}
	}
	return columns, nil
}

// add reads one row.
func (t *Table) add(row []string, columns map[string]int, line int) error {
	number := func(name string) (int64, error) {
		text := strings.TrimSpace(row[columns[name]])
		v, err := strconv.ParseInt(text, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("pack: line %d: %s %s does not fit into 64 bits", line, name, text)
		case err != nil:
			return 0, fmt.Errorf("pack: line %d: %s is %q: wanted a whole number", line, name, text)
		}
		return v, nil
	}
	var b Buffer
	var err error
	if b.Lower, err = number(columnLower); err != nil {
		return err
	}
	if b.Upper, err = number(columnUpper); err != nil {
		return err
	}
	if b.Size, err = number(columnSize); err != nil {
		return err
	}
	if b.Size < 0 {
		return fmt.Errorf("pack: line %d: size is %d: it must not be negative", line, b.Size)
	}
	if b.Lower >= b.Upper {
		return fmt.Errorf("pack: line %d: lower is %d and upper is %d: upper must be greater", line, b.Lower, b.Upper)
	}
	if i, ok := columns[columnAlignment]; ok {
		if v := strings.TrimSpace(row[i]); v != "" && v != "1" {
			return fmt.Errorf("pack: line %d: alignment %s: only 1 is supported; round the sizes "+
				"up instead", line, v)
		}
	}
	if _, ok := columns[columnOffset]; ok {
		offset, err := number(columnOffset)
		if err != nil {
			return err
		}
		t.Offsets = append(t.Offsets, offset)
	}
	t.Rows = append(t.Rows, row)
	t.IDs = append(t.IDs, row[columns[columnID]])
	t.Buffers = append(t.Buffers, b)
	return nil
}

// WriteCSV writes the table's rows with an offset for every buffer, in the
// column of that name or in a new last one.
func (t *Table) WriteCSV(w io.Writer, offsets []int64) error {
	if len(offsets) != len(t.Rows) {
		return fmt.Errorf("pack: %d offsets for %d rows", len(offsets), len(t.Rows))
	}
	at := slices.Index(t.Header, columnOffset)
	out := csv.NewWriter(w)
	record := slices.Clone(t.Header)
	if at < 0 {
		at = len(record)
		record = append(record, columnOffset)
	}
	if err := out.Write(record); err != nil {
		return err
	}
	for i, row := range t.Rows {
		copy(record, row)
		record[at] = strconv.FormatInt(offsets[i], 10)
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
