package kernels

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/ulikunitz/xz/lzma"
)

// The PTX of all modules is one archive. An entry has the modules of one family, for example those of conv_bf16,
// conv_f16 and conv_f32, whose texts are much alike: before each stands its name and the number of its bytes. Entries
// are compressed one by one, so that a change of one kernel keeps the bytes of the others, and have no times. LZMA
// takes half of the bytes that deflate does.
//
//go:embed ptx.zip
var archive []byte

// manifest is for reviewers, in place of the archive: the compiler, its input
// (SourceSum), then a line for each module as sha256sum writes and checks them.
//
//go:embed ptx.sha256
var manifest string

// Compiler is the version of clang that compiled the PTX that is checked in, as clang --version
// names it.
func Compiler() string {
	line, _, _ := strings.Cut(manifest, "\n")
	return strings.TrimPrefix(line, "# ")
}

// SourceSum is the SHA-256 of all that the PTX depends on besides the compiler: the flags, and the names and
// contents of the sources.
func SourceSum() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", Flags)
	files, err := Sources.ReadDir(".")
	for _, f := range files {
		var data []byte
		if data, err = Sources.ReadFile(f.Name()); err != nil {
			break
		}
		fmt.Fprintf(h, "%s %d\n%s", f.Name(), len(data), data)
	}
	if err != nil {
		panic(err) // of a file that is in the program
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// opened is the directory of the archive.
var opened = sync.OnceValues(func() (*zip.Reader, error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err == nil {
		r.RegisterDecompressor(methodLZMA, decompressed)
	}
	return r, err
})

// methodLZMA is LZMA in a zip file (PKWARE, "APPNOTE.TXT", 4.4.5 and 5.8): four bytes, the last two of which are the
// length of the properties, the properties, and the data up to their mark of the end.
const methodLZMA = 14

// The header of a file of LZMA alone is the properties and the number of bytes; all bits set: up to the mark.
const (
	lzmaProperties = 5
	lzmaHeader     = lzmaProperties + 8
)

// decompressed reads the data of an entry.
func decompressed(r io.Reader) io.ReadCloser {
	head := make([]byte, 4+lzmaProperties, 4+lzmaHeader)
	if _, err := io.ReadFull(r, head); err != nil {
		return failed{err}
	}
	for len(head) < cap(head) {
		head = append(head, 0xff)
	}
	l, err := lzma.NewReader(io.MultiReader(bytes.NewReader(head[4:]), r))
	if err != nil {
		return failed{err}
	}
	return io.NopCloser(l)
}

// failed is a reader of data that cannot be read.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
func (f failed) Close() error             { return nil }

// PTX returns a module.
func PTX(module string) ([]byte, error) {
	r, err := opened()
	if err != nil {
		return nil, fmt.Errorf("the archive of PTX: %w", err)
	}
	f, err := r.Open(family(module) + ".ptx")
	if err != nil {
		return nil, fmt.Errorf("there is no module of kernels named %q", module)
	}
	defer f.Close()
	for text := bufio.NewReader(f); ; {
		var name string
		var size int64
		if _, err := fmt.Fscanf(text, "%s %d\n", &name, &size); err == io.EOF {
			return nil, fmt.Errorf("there is no module of kernels named %q", module)
		} else if err != nil {
			return nil, fmt.Errorf("the PTX of module %q: %w", module, err)
		}
		image, err := io.ReadAll(io.LimitReader(text, size))
		if err != nil {
			return nil, fmt.Errorf("the PTX of module %q: %w", module, err)
		}
		if name == module {
			return image, nil
		}
	}
}

// family is the name of a module without the type of its numbers: conv of conv_bf16.
func family(module string) string {
	at := strings.LastIndexByte(module, '_')
	if at >= 0 && slices.Contains([]string{"bf16", "f16", "f32", "f64", "i32", "i64", "u8"}, module[at+1:]) {
		return module[:at]
	}
	return module
}

// WriteArchive writes the PTX of modules, in the order of their names, as an archive. The same modules give the same
// bytes. It runs the program xz, since the library's own compressor takes minutes for texts so much alike.
func WriteArchive(w io.Writer, names []string, ptx map[string][]byte) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(methodLZMA, func(w io.Writer) (io.WriteCloser, error) { return &compressor{to: w}, nil })
	families, of := []string{}, map[string][]string{}
	for _, name := range names {
		f := family(name)
		if of[f] == nil {
			families = append(families, f)
		}
		of[f] = append(of[f], name)
	}
	for _, f := range families {
		entry, err := z.CreateHeader(&zip.FileHeader{Name: f + ".ptx", Method: methodLZMA})
		if err != nil {
			return err
		}
		for _, name := range of[f] {
			if _, err := fmt.Fprintf(entry, "%s %d\n%s", name, len(ptx[name]), ptx[name]); err != nil {
				return err
			}
		}
	}
	return z.Close()
}

// compressor compresses all that was written to it when it is closed.
type compressor struct {
	bytes.Buffer
	to io.Writer
}

// Close runs xz, and puts the header of an entry in place of that of a file.
func (c *compressor) Close() error {
	cmd := exec.Command("xz", "-F", "lzma", "-9e", "-c")
	cmd.Stdin = &c.Buffer
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("xz: %w", err)
	}
	if len(out) < lzmaHeader {
		return fmt.Errorf("xz wrote %d bytes, wanted %d or more", len(out), lzmaHeader)
	}
	_, err = c.to.Write(slices.Concat([]byte{9, 20, lzmaProperties, 0}, out[:lzmaProperties], out[lzmaHeader:]))
	return err
}

// Manifest is the text that goes with an archive of modules that a compiler made.
func Manifest(compiler string, names []string, ptx map[string][]byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n# of sources %s\n", compiler, SourceSum())
	for _, name := range names {
		fmt.Fprintf(&b, "%x  %s.ptx\n", sha256.Sum256(ptx[name]), name)
	}
	return b.String()
}
