package cli

import (
	"fmt"
	"strings"

	"memopt/configs"
	"memopt/internal/inputfile"
	"memopt/planner"
)

// maxHistogram is the most bytes of a file of sizes.
const maxHistogram = 64 << 20

// readHistograms reads the files of sizes that --dim names, such as tokens=lengths.json. In --dim the range from the
// smallest size to the largest takes the place of the file.
func (a *App) readHistograms() error {
	for i, flag := range a.Global.Dims {
		parts := strings.Split(flag, ",")
		for k, part := range parts {
			symbol, path, ok := strings.Cut(part, "=")
			if !ok || !strings.HasSuffix(path, ".json") {
				continue
			}
			h, err := a.histogram(strings.TrimSpace(symbol), strings.TrimSpace(path))
			if err != nil {
				return err
			}
			if a.Histograms == nil {
				a.Histograms, a.ofFile = map[string]*planner.Histogram{}, map[string]string{}
			}
			r := h.Range()
			parts[k] = fmt.Sprintf("%s=%d..%d", h.Symbol, r.Lo, r.Hi)
			a.Histograms[h.Symbol], a.ofFile[parts[k]] = h, part
		}
		a.Global.Dims[i] = strings.Join(parts, ",")
	}
	return nil
}

// givenText is a binding as the command line has it.
func (a *App) givenText(b *Binding) string {
	if file, ok := a.ofFile[b.Text()]; ok {
		return file
	}
	return b.Text()
}

func (a *App) histogram(symbol, path string) (*planner.Histogram, error) {
	if err := a.Reads("--dim", path); err != nil {
		return nil, err
	}
	data, err := inputfile.Read(path, maxHistogram)
	if err != nil {
		return nil, Usage("--dim %s=%s: %w", symbol, path, err)
	}
	h, err := configs.ParseHistogram(data, symbol)
	if err != nil {
		return nil, Usage("--dim %s=%s: %w", symbol, path, err)
	}
	return h, nil
}
