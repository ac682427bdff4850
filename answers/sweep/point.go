package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Point is one combination of a grid's values.
type Point struct {
	Index  int
	Verb   string
	Models []string
	Dims   map[string]any // by symbol, as the grid has them
	Flags  map[string]any // by flag, likewise
	Args   []string       // of the verb, without the sweep's own ones
	files  []string       // that its arguments may name
	budget string
}

// Checker is the interface of package sweep to the program's verbs.
type Checker interface {
	// Flag returns a verb's flag; the error is the reason why a grid may not have it.
	Flag(verb, flag string) (Flag, error)
	// Check parses the arguments of a verb without running it.
	Check(verb string, args []string) error
	// Inputs lists the further files that a model consists of.
	Inputs(model string) ([]string, error)
}

// Flag is a flag as a sweep sees it.
type Flag struct {
	Many  bool // it can be given several times
	Reads bool // its value may be the path of an input
}

// expand makes the points of all combinations.
func (g *Grid) expand(axes []axis, verbs Checker) error {
	flags := map[string]Flag{}
	n := 1
	for i := range axes {
		a := &axes[i]
		if n *= len(a.values); n > MaxPoints {
			return fmt.Errorf("has more than %d points; make several grids of it", MaxPoints)
		}
		if a.part != "flags" {
			continue
		}
		f, err := verbs.Flag(g.Verb, a.name)
		if err != nil {
			return at(a.key(), "%w", err)
		}
		flags[a.name] = f
		for _, v := range a.values {
			if len(v.texts) > 1 && !f.Many {
				return at(a.key(), "%q: the flag is given once only; wanted single values", v.texts)
			}
		}
	}
	seen := map[string]int{}
	for i := range n {
		p := g.point(i, axes, flags)
		if err := verbs.Check(g.Verb, p.Args); err != nil {
			return at(p.describe(axes), "%w", err)
		}
		text := strings.Join(p.Args, "\x00")
		if j, ok := seen[text]; ok {
			return fmt.Errorf("points %d and %d are the same: %s %s", j, i, g.Verb, strings.Join(p.Args, " "))
		}
		seen[text] = i
		g.Points = append(g.Points, p)
	}
	return nil
}

// describe is a point in an error's place of a key: its values of the axes that vary.
func (p *Point) describe(axes []axis) string {
	text := fmt.Sprintf("point %d", p.Index)
	rest := p.Index
	var parts []string
	for _, a := range slices.Backward(axes) {
		v := a.values[rest%len(a.values)]
		rest /= len(a.values)
		if len(a.values) > 1 {
			parts = append(parts, fmt.Sprintf("%s %s", a.key(), strings.Join(v.texts, " ")))
		}
	}
	if len(parts) == 0 {
		return text
	}
	slices.Reverse(parts)
	return text + " (" + strings.Join(parts, ", ") + ")"
}

// point makes the point of a number, whose digits are the places of its values in the axes.
func (g *Grid) point(i int, axes []axis, flags map[string]Flag) *Point {
	p := &Point{Index: i, Verb: g.Verb, Dims: map[string]any{}, Flags: map[string]any{}}
	at := make([]int, len(axes))
	for k := len(axes) - 1; k >= 0; k-- {
		at[k] = i % len(axes[k].values)
		i /= len(axes[k].values)
	}
	for k := range axes {
		a := &axes[k]
		v := a.values[at[k]]
		switch a.part {
		case "models":
			p.Models = v.texts
			p.files = append(p.files, v.texts...)
		case "dims":
			p.Dims[a.name] = v.shown
			p.Args = append(p.Args, "--dim="+a.name+"="+v.texts[0])
		case "flags":
			p.Flags[a.name] = v.shown
			for _, text := range v.texts {
				p.Args = append(p.Args, "--"+a.name+"="+text)
				if flags[a.name].Reads {
					p.files = append(p.files, text)
				}
			}
			if a.name == "budget" && len(v.texts) > 0 {
				p.budget = v.texts[0]
			}
		}
	}
	slices.Sort(p.Args) // the order of keys in the file makes no difference
	p.Args = append(append(p.Args, "--"), p.Models...)
	return p
}

// Hasher makes the identities of points. It reads each file once.
type Hasher struct {
	Verbs Checker
	known map[string]string
}

// ID is a point's identity: a hash of its arguments, and of the contents of the files that they
// name.
func (h *Hasher) ID(p *Point) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "memopt.point/v1 %s %q\n", p.Verb, p.Args)
	for _, name := range p.files {
		text, err := h.contents(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%q %s\n", name, text)
	}
	const digits = 16 // 64 bits: two of 10,000 points collide with a chance of 3 in 10^12
	return hex.EncodeToString(sum.Sum(nil))[:digits], nil
}

// contents is a hash of the files that a name stands for; "" if it names no file.
func (h *Hasher) contents(name string) (string, error) {
	if text, ok := h.known[name]; ok {
		return text, nil
	}
	files, err := filepath.Glob(name)
	if _, e := os.Stat(name); e == nil || err != nil {
		files = []string{name}
	}
	sum := sha256.New()
	for _, file := range files {
		if err := h.add(sum, file); err != nil {
			return "", err
		}
	}
	text := ""
	if len(files) > 0 {
		text = hex.EncodeToString(sum.Sum(nil))
	}
	if h.known == nil {
		h.known = map[string]string{}
	}
	h.known[name] = text
	return text, nil
}

// add hashes a file, with a model's external data, or all files of a folder.
func (h *Hasher) add(sum io.Writer, name string) error {
	return filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, e := os.Stat(path); e != nil || !info.Mode().IsRegular() {
			return e
		}
		files := []string{path}
		if strings.HasSuffix(path, ".onnx") {
			more, err := h.Verbs.Inputs(path)
			if err != nil {
				return err
			}
			files = append(files, more...)
		}
		for _, file := range files {
			if err := hashFile(sum, file); err != nil {
				return err
			}
		}
		return nil
	})
}

// hashFile adds a file's name and contents.
func hashFile(sum io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	own := sha256.New()
	if _, err := io.Copy(own, f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = fmt.Fprintf(sum, "%q %x\n", filepath.Base(path), own.Sum(nil))
	return err
}

// words are a point's values for people: of symbols and flags, in the order of their names.
func words(values map[string]any) string {
	var list []string
	for name, v := range values {
		list = append(list, name+"="+text(v))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
