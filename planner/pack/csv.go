package pack

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
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

	columns map[string]int // by the first of a column's names
	past    int64          // added to the end of a time: 1 if the file names the last step
}

// column names of google/minimalloc's files.
const (
	columnID        = "id"
	columnLower     = "lower"
	columnUpper     = "upper"
	columnSize      = "size"
	columnOffset    = "offset"
	columnAlignment = "alignment"
	columnGaps      = "gaps"

	// columnEnd is upper with another meaning: the last step of the buffer's life. So are the ends of
	// gaps in a file that has this column.
	columnEnd = "end"
)

// synonyms are the other names of columns.
var synonyms = map[string]string{"buffer": columnID, "buffer_id": columnID, "begin": columnLower,
	"start": columnLower, columnEnd: columnUpper}

// ReadCSV reads the columns id, lower, upper and size in any order, as google/minimalloc writes them,
// and gaps and offset if they are there. id may be called buffer or buffer_id, and lower begin or
// start. A column end in place of upper has the last step of the buffer's life, and gaps end so too.
// Gaps stand one after the other with spaces in between, for example "2-5 8-9".
//
// Other columns are kept for WriteCSV, except that an alignment other than 1 is refused, since Buffer
// has none: sizes must be rounded up beforehand. So is a gap that a part of the buffer lives through
// ("2-5@0:4"). Errors name the line.
//
// The format is that of minimalloc's src/converter.cc.
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
	if err := t.findColumns(); err != nil {
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
		id := row[t.columns[columnID]]
		if first, ok := seen[id]; ok {
			return nil, fmt.Errorf("pack: line %d: id %q is on line %d already", line, id, first)
		}
		seen[id] = line
		if err := t.add(row, line); err != nil {
			return nil, err
		}
	}
}

// findColumns finds the named columns in the header.
func (t *Table) findColumns() error {
	t.columns = map[string]int{}
	for i, name := range t.Header {
		name = strings.TrimSpace(name)
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff") // a byte order mark
		}
		t.Header[i] = name
		column := name
		if first, ok := synonyms[name]; ok {
			column = first
		}
		if other, ok := t.columns[column]; ok {
			return twice(t.Header[other], name)
		}
		t.columns[column] = i
		if name == columnEnd {
			t.past = 1
		}
	}
	for _, name := range []string{columnID, columnLower, columnUpper, columnSize} {
		if _, ok := t.columns[name]; !ok {
			return fmt.Errorf("pack: line 1: no column %q in the header %q: wanted id, "+
				"lower, upper and size (or buffer, begin, end and size)",
				name, strings.Join(t.Header, ","))
		}
	}
	return nil
}

func twice(a, b string) error {
	if a == b {
		return fmt.Errorf("pack: line 1: the column %q appears twice", a)
	}
	return fmt.Errorf("pack: line 1: the columns %q and %q are two names of one", a, b)
}

// add reads one row.
func (t *Table) add(row []string, line int) error {
	number := func(column string) (int64, error) {
		at := t.columns[column]
		v, err := parseWhole(t.Header[at], strings.TrimSpace(row[at]))
		if err != nil {
			return 0, fmt.Errorf("pack: line %d: %w", line, err)
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
	if err := t.checkTime(&b); err != nil {
		return fmt.Errorf("pack: line %d: %w", line, err)
	}
	if i, ok := t.columns[columnGaps]; ok {
		if b.Gaps, err = t.parseGaps(row[i]); err == nil {
			err = b.checkGaps()
		}
		if err != nil {
			return fmt.Errorf("pack: line %d: %w", line, err)
		}
	}
	if i, ok := t.columns[columnAlignment]; ok {
		if v := strings.TrimSpace(row[i]); v != "" && v != "1" {
			return fmt.Errorf("pack: line %d: alignment %s: only 1 is supported; round the sizes "+
				"up instead", line, v)
		}
	}
	if _, ok := t.columns[columnOffset]; ok {
		offset, err := number(columnOffset)
		if err != nil {
			return err
		}
		t.Offsets = append(t.Offsets, offset)
	}
	t.Rows = append(t.Rows, row)
	t.IDs = append(t.IDs, row[t.columns[columnID]])
	t.Buffers = append(t.Buffers, b)
	return nil
}

// checkTime refuses a buffer that is never live, and makes an end that is the last step the step after.
func (t *Table) checkTime(b *Buffer) error {
	lower, upper := t.Header[t.columns[columnLower]], t.Header[t.columns[columnUpper]]
	switch {
	case t.past == 1 && b.Upper == math.MaxInt64:
		return fmt.Errorf("%s is %d: wanted a smaller number", upper, b.Upper)
	case t.past == 1 && b.Lower > b.Upper:
		return fmt.Errorf("%s is %d and %s is %d: %s must not be smaller", lower, b.Lower, upper, b.Upper, upper)
	case t.past == 0 && b.Lower >= b.Upper:
		return fmt.Errorf("%s is %d and %s is %d: %s must be greater", lower, b.Lower, upper, b.Upper, upper)
	}
	b.Upper += t.past
	return nil
}

// parseGaps reads the gaps of one buffer, and puts them in order.
func (t *Table) parseGaps(text string) ([]Gap, error) {
	var gaps []Gap
	for _, word := range strings.Fields(text) {
		if strings.Contains(word, "@") {
			return nil, fmt.Errorf("gap %q keeps a part of the buffer live: only gaps of the whole buffer, such as "+
				"\"2-5\", are supported", word)
		}
		// The first digit is skipped, so that a number may be negative.
		dash := strings.Index(word[1:], "-") + 1
		if dash == 0 {
			return nil, fmt.Errorf("gap %q: wanted two whole numbers, such as \"2-5\"", word)
		}
		lower, err := parseWhole("the begin of gap "+strconv.Quote(word), word[:dash])
		if err != nil {
			return nil, err
		}
		upper, err := parseWhole("the end of gap "+strconv.Quote(word), word[dash+1:])
		if err != nil {
			return nil, err
		}
		if upper < math.MaxInt64 {
			upper += t.past
		}
		gaps = append(gaps, Gap{lower, upper})
	}
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Compare(a.Lower, b.Lower) })
	return gaps, nil
}

// parseWhole reads a whole number; the error calls it by the name given.
func parseWhole(name, text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s %s does not fit into 64 bits", name, text)
	case err != nil:
		return 0, fmt.Errorf("%s is %q: wanted a whole number", name, text)
	}
	return v, nil
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
