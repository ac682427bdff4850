package ortengine

import "context"

// Loads opens a model's file once, with the engine's options, and runs no node. It returns the version
// of the runtime. The error is an *Error with the runtime's words about the file, or with the reason why no
// runtime was opened; or that of a context that was done before.
func (e *Engine) Loads(ctx context.Context, file string) (version string, err error) {
	p, err := e.start(ctx, "")
	if err != nil {
		return "", err
	}
	defer p.Close()
	_, err = p.Open(file, e.Options, nil, nil)
	return p.Info().Version, failedOn(file, nil, err)
}
