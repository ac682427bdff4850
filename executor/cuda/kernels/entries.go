package kernels

import (
	"fmt"
	"regexp"
	"strconv"
)

// Entry is a module's declaration of a kernel, which a launch must respect.
type Entry struct {
	Params  int // bytes of its one parameter, a struct
	Threads int // the most threads of a block: UnboundThreads where the source sets no bound
	Shared  int // bytes of shared memory, besides those that the launch asks for
}

// UnboundThreads is how many threads a block can have whatever registers a kernel takes: a thread
// has 255 at most, and a block 65536 (CUDA C Programming Guide, table of technical specifications
// by compute capability).
const UnboundThreads = 256

var (
	entryText = regexp.MustCompile(
		`(?m)^\.visible \.entry (\w+)\(\n\s*\.param (?:\.align \d+ )?\.b8 \w+\[(\d+)\]\n\)\n(?:\.maxntid (\d+), (\d+), (\d+)\n)?`)
	sharedText = regexp.MustCompile(`(?m)^\s*\.shared \.align (\d+) \.b8 \w+\[(\d+)\];`)
)

// Entries returns a module's kernels by name.
func Entries(module string) (map[string]Entry, error) {
	image, err := PTX(module)
	if err != nil {
		return nil, err
	}
	found := entryText.FindAllSubmatchIndex(image, -1)
	all := make(map[string]Entry, len(found))
	for i, at := range found {
		number := func(group int) int {
			n, _ := strconv.Atoi(string(image[at[2*group]:at[2*group+1]])) // of digits
			return n
		}
		e := Entry{Params: number(2), Threads: UnboundThreads}
		if at[2*3] >= 0 {
			e.Threads = number(3) * number(4) * number(5)
		}
		end := len(image)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		e.Shared = sharedBytes(image[at[1]:end])
		all[string(image[at[2]:at[3]])] = e
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the PTX of module %s declares no kernel that takes one struct", module)
	}
	return all, nil
}

// sharedBytes adds up the shared memory that the text of a kernel declares.
func sharedBytes(body []byte) int {
	total := 0
	for _, m := range sharedText.FindAllSubmatch(body, -1) {
		align, _ := strconv.Atoi(string(m[1]))
		size, _ := strconv.Atoi(string(m[2]))
		total = (total+align-1)/align*align + size
	}
	return total
}
