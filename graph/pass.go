package graph

import "fmt"

// Pass is one edit of a model. Run says whether it changed anything.
type Pass struct {
	Name string
	Doc  string // one line: its effect and the reason for its place
	Run  func(*Model) (changed bool, err error)
}

// RunPasses runs the passes in order and verifies the model after each one that
// changed it, and that it gave no name twice. An error names the pass that was running.
func RunPasses(m *Model, passes ...Pass) error {
	names := NewNames(m)
	for _, p := range passes {
		changed, err := p.Run(m)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if !changed {
			continue
		}
		err = Verify(m)
		if err == nil {
			err = names.Verify(m)
		}
		if err != nil {
			return fmt.Errorf("pass %s left the model invalid: %w", p.Name, err)
		}
	}
	return nil
}
