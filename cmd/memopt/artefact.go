package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"memopt/internal/cleanup"
	"memopt/report"
)

// writeArtefact writes a file that a verb makes: to a temporary name first, so
// that a full disk leaves no half of it, and never over the model itself.
func (a *app) writeArtefact(path, model string, data []byte) error {
	if path == "-" {
		_, err := a.out.Write(data)
		return err
	}
	if same, err := sameFile(path, model); err == nil && same {
		return usage("%s: is the file that was read; choose another name", path)
	}
	if err := replaceFile(path, data); err != nil {
		return usage("%s: cannot be written: %w", path, err)
	}
	return nil
}

func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}

// replaceFile writes a file beside its final name and renames it. What is there and
// no regular file, such as a device or a pipe, is written to.
func replaceFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	f, temp, err := cleanup.File(func() (*os.File, error) { return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") })
	if err != nil {
		return err
	}
	defer temp.Undo() // gone already where the rename succeeded
	defer f.Close()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// parseThreshold reads the size of --external-data; "" is no threshold.
func parseThreshold(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := report.ParseBytes(text)
	if err != nil || n <= 0 {
		return 0, usage("--external-data %q: wanted a positive size such as 1MiB or 4096", text)
	}
	return n, nil
}

// wrap puts the model's name in front of an error, once.
func wrap(name string, err error) error {
	if strings.HasPrefix(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
