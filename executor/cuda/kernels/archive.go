package kernels

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// The PTX of all modules is one archive. An entry has the modules of one family, for example those of conv_bf16,
// conv_f16 and conv_f32, whose texts are much alike: before each stands its name and the number of its bytes. Entries
// are compressed one by one, so that a change of one kernel keeps the bytes of the others, and have no times. bzip2
// takes three quarters of the bytes that deflate does.
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
		r.RegisterDecompressor(methodBzip2, func(r io.Reader) io.ReadCloser { return io.NopCloser(bzip2.NewReader(r)) })
	}
	return r, err
})

// methodBzip2 is bzip2 in a zip file (PKWARE, "APPNOTE.TXT", 4.4.5).
const methodBzip2 = 12

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
// bytes. It runs the program bzip2, since Go's library only decompresses.
func WriteArchive(w io.Writer, names []string, ptx map[string][]byte) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(methodBzip2, func(w io.Writer) (io.WriteCloser, error) { return &compressor{to: w}, nil })
	families, of := []string{}, map[string][]string{}
	for _, name := range names {
		f := family(name)
		if of[f] == nil {
			families = append(families, f)
		}
		of[f] = append(of[f], name)
	}
	for _, f := range families {
		entry, err := z.CreateHeader(&zip.FileHeader{Name: f + ".ptx", Method: methodBzip2})
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

// Close runs bzip2.
func (c *compressor) Close() error {
	cmd := exec.Command("bzip2", "-9", "-c")
	cmd.Stdin, cmd.Stdout = &c.Buffer, c.to
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bzip2: %w", err)
	}
	return nil
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
