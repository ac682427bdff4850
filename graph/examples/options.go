package examples

import "fmt"

func setDefault[T int | float64](field *T, def T) {
	if *field == 0 {
		*field = def
	}
}

// maxSize bounds every option that counts something: the elements of a weight fit int64, and a
// typing error in an option does not make a graph of unreasonable size.
const maxSize = 1 << 20

type size struct {
	name string
	got  int
}

func checkSizes(example string, sizes []size) error {
	for _, s := range sizes {
		if s.got < 1 || s.got > maxSize {
			return fmt.Errorf("%s: %s is %d; it must be in [1, %d]", example, s.name, s.got, maxSize)
		}
	}
	return nil
}
