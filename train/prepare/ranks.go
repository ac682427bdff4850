package prepare

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"memopt/train/collective"
)

// Ranks are the ranks of a job that is being prepared. The error of a method is a *DifferError, or one of the group
// of ranks, which ends the group. All ranks call the same methods in the same order.
type Ranks struct{ Group collective.Group }

// Part is a named part of a job that all ranks must share, for example the plan. Its value is compared as JSON.
type Part struct {
	Name  string
	Value any
}

// DifferError says that ranks do not share all parts of a job. Every rank has the same error.
type DifferError struct {
	// Ranks has the ranks that differ from rank 0, in ascending order, and Parts the names of the parts by which
	// each of them differs.
	Ranks []int
	Parts [][]string
}

// Error names all ranks with another part than rank 0.
func (e *DifferError) Error() string {
	var differ []string
	for i, rank := range e.Ranks {
		differ = append(differ, fmt.Sprintf("rank %d has another %s", rank, strings.Join(e.Parts[i], ", ")))
	}
	return fmt.Sprintf("the ranks have not come to the same job: %s than rank 0; give all of them the same program, "+
		"files and flags", strings.Join(differ, "; "))
}

// exchange gathers a message of each rank, all of equal length.
func (r Ranks) exchange(mine []byte) ([]byte, error) {
	all := make([]byte, len(mine)*r.Group.Size())
	return all, r.Group.Exchange(mine, all)
}

// Same requires all ranks to have equal parts. The names of the parts are the same on all ranks.
func (r Ranks) Same(parts ...Part) error {
	var mine []byte
	for _, p := range parts {
		text, err := json.Marshal(p.Value)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		mine = append(mine, sum[:]...)
	}
	all, err := r.exchange(mine)
	if err != nil {
		return err
	}
	return differing(all, parts)
}

// differing compares the hashes of all ranks with rank 0's.
func differing(all []byte, parts []Part) error {
	e := &DifferError{}
	size := sha256.Size * len(parts)
	for rank := 1; rank*size < len(all); rank++ {
		its := all[rank*size:]
		var names []string
		for i, p := range parts {
			at := i * sha256.Size
			if string(its[at:at+sha256.Size]) != string(all[at:at+sha256.Size]) {
				names = append(names, p.Name)
			}
		}
		if len(names) > 0 {
			e.Ranks, e.Parts = append(e.Ranks, rank), append(e.Parts, names)
		}
	}
	if len(e.Ranks) == 0 {
		return nil
	}
	return e
}

// Failure is the end of a preparation that has failed on some rank.
type Failure struct {
	// Rank is the first rank with the error that this rank reports, and Code that rank's exit code. If Rank is
	// this rank, it prints the error.
	Rank, Code int
}

// Agree compares the errors of all ranks: code is the exit code of this rank's error, 0 without an error, and text
// its message. A nil Failure means that no rank has failed. Among ranks with equal messages the first one reports; a
// rank without an error gets the first rank that has one.
func (r Ranks) Agree(code int, text string) (*Failure, error) {
	h := fnv.New64a()
	h.Write([]byte(text))
	mine := binary.LittleEndian.AppendUint64(nil, uint64(code))
	mine = binary.LittleEndian.AppendUint64(mine, h.Sum64())
	all, err := r.exchange(mine)
	if err != nil {
		return nil, err
	}
	for rank := range r.Group.Size() {
		its := all[16*rank:]
		n := int(binary.LittleEndian.Uint64(its))
		if n != 0 && (code == 0 || rank == r.Group.Rank() || string(its[8:16]) == string(mine[8:16])) {
			return &Failure{rank, n}, nil
		}
	}
	return nil, nil
}

// Least returns the smallest of the ranks' numbers, for example of the samples that fit each of them.
func (r Ranks) Least(n int64) (int64, error) {
	all, err := r.exchange(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	if err != nil {
		return 0, err
	}
	least := int64(math.MaxInt64)
	for rank := range r.Group.Size() {
		least = min(least, int64(binary.LittleEndian.Uint64(all[8*rank:])))
	}
	return least, nil
}
