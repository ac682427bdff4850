package main

import (
	"fmt"
	"strings"

	"memopt/internal/fileio"
	"memopt/report"
)

// writeArtefact writes a file that a verb makes, which a flag names.
func (a *app) writeArtefact(flag, path string, data []byte) error {
	if path == streamName {
		_, err := a.out.Write(data)
		return err
	}
	if err := a.writes(flag, path); err != nil {
		return err
	}
	if err := fileio.WriteFile(path, data); err != nil {
		return usage("%w", err)
	}
	a.files.Written(flag, path)
	return nil
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
